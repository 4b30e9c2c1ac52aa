/** Serves the `@nostr-relay/*` packages from memory on 127.0.0.1, put together as their documentation does. */
import common from '@nostr-relay/common';
import core from '@nostr-relay/core';
import sqlite from '@nostr-relay/event-repository-sqlite';
import validation from '@nostr-relay/validator';
import { WebSocketServer } from 'ws';

const port = Number(process.argv[2]);
const events = new sqlite.EventRepositorySqlite(':memory:');
await events.init();
const relay = new core.NostrRelay(events, {
  hostname: '127.0.0.1',
  logLevel: common.LogLevel.ERROR,
  filterResultCacheTtl: Number(process.argv[3]),
});
const validator = new validation.Validator();

new WebSocketServer({ host: '127.0.0.1', port }).on('connection', (ws) => {
  relay.handleConnection(ws);
  ws.on('message', async (data) => {
    try {
      await relay.handleMessage(ws, await validator.validateIncomingMessage(data));
    } catch (error) {
      ws.send(JSON.stringify(['NOTICE', error.message]));
    }
  });
  ws.on('close', () => relay.handleDisconnect(ws));
  ws.on('error', () => ws.terminate());
});
