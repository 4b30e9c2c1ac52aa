/**
 * Train with friends: join lines, and the lobby in which the founders of a run gather. `hostRun` and `joinRun` of
 * `nostrain/node` use them on a machine.
 *
 * @module nostrain/friends
 */
export { decodeJoinLine, type Invitation, type JoinLine, joinLineOf } from './line.ts';
export {
  type Attendee,
  buildAttendee,
  buildLobby,
  type Lobby,
  type LobbyAddress,
  lobbyFilters,
  lockOf,
  proofOf,
  readAttendee,
  readLobby,
} from './lobby.ts';
export { type LobbyPorts, OpenLobby, type Person } from './open-lobby.ts';
