/** What waits for something that is not here: tried at once, and again whenever something has arrived. */
export class Waiting {
  readonly #actions = new Map<string, () => boolean>();

  get isEmpty(): boolean {
    return this.#actions.size === 0;
  }

  /** Does something now, or as soon as what it lacks is here; an action is true once it is done. One action per key. */
  attempt(key: string, action: () => boolean): void {
    if (action()) this.#actions.delete(key);
    else this.add(key, action);
  }

  /** Leaves something to the next `retry`. */
  add(key: string, action: () => boolean): void {
    this.#actions.set(key, action);
  }

  retry(): void {
    for (const [key, action] of [...this.#actions]) this.attempt(key, action);
  }
}
