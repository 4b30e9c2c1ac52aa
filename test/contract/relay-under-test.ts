/** A relay as the transport suite sees it. */

export interface StartedRelay {
  readonly url: string;
  close(): Promise<unknown>;
}

export interface RelayUnderTest {
  readonly name: string;
  /** One for each test; a relay that is slow to start may give the same one every time. */
  start(): Promise<StartedRelay>;
  /** A length of content that it refuses; undefined when it was not found. */
  readonly tooLarge: number | undefined;
  /** Subscriptions that one connection can count on. */
  readonly subscriptions: number;
}
