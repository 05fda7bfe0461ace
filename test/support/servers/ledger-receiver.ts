/**
 * Receives ledger records over HTTP, as `docs/operations/ledger.md` tells operators to do. It accepts no body
 * whose signature is not valid, and keeps entries by run and hash.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { type AnyEntry, LedgerRecord } from '../../../contracts/schemas/ledger.ts';
import { GENESIS, verifyChain } from '../../../domain/run/journal.ts';
import { bodyOf, listenOnLoopback } from './loopback-server.ts';

export const WEBHOOK_SECRET = `whsec_${Buffer.from('a secret of the ledger webhook').toString('base64')}`;

export interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface LedgerReceiver {
  readonly url: string;
  readonly received: readonly Received[];
  /** Entries of the chain with this first run, by number and then by hash. */
  entries(firstRunId: string): readonly AnyEntry[];
  signedHeads(firstRunId: string): readonly string[];
  /** Answers in this way instead, until it is called without an argument. */
  answer(instead?: 'keeps it and says nothing' | ((request: IncomingMessage, response: ServerResponse) => void)): void;
  close(): Promise<void>;
}

interface Kept {
  readonly byHash: Map<string, AnyEntry>;
  readonly after: Map<string, string>;
  readonly heads: string[];
}

export async function startLedgerReceiver(secret = WEBHOOK_SECRET): Promise<LedgerReceiver> {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const chains = new Map<string, Kept>();
  const received: Received[] = [];
  let instead: Parameters<LedgerReceiver['answer']>[0];
  const server = await listenOnLoopback((request, response) => {
    void bodyOf(request).then((body) => {
      received.push({ headers: request.headers, body });
      if (typeof instead === 'function') return instead(request, response);
      const status = isSigned(key, request.headers, body) ? keep(chains, body) : 401;
      if (instead === undefined) response.writeHead(status).end();
    });
  });
  return {
    url: `${server.origin}/ledger`,
    received,
    entries: (firstRunId) =>
      [...(chains.get(firstRunId)?.byHash.values() ?? [])].toSorted(
        (one, other) => one.seq - other.seq || one.hash.localeCompare(other.hash),
      ),
    signedHeads: (firstRunId) => chains.get(firstRunId)?.heads ?? [],
    answer: (given) => {
      instead = given;
    },
    close: server.close,
  };
}

/** @returns the HTTP status of the answer */
function keep(chains: Map<string, Kept>, body: string): number {
  const { head, signedHead, entries } = LedgerRecord.parse(JSON.parse(body));
  const kept: Kept = chains.get(head.firstRunId) ?? { byHash: new Map(), after: new Map(), heads: [] };
  const fresh = entries.filter(({ hash }) => !kept.byHash.has(hash));
  const [first] = fresh;
  if (verifyChain(entries, head.from, head.previousHead).kind === 'broken') return 400;
  if (first === undefined) return 200;
  const follows = first.seq === 0 ? first.prev === GENESIS : kept.byHash.has(first.prev);
  if (!follows || (kept.after.has(first.prev) && head.resetOf === undefined)) return 409;
  for (const entry of fresh) {
    kept.byHash.set(entry.hash, entry);
    kept.after.set(entry.prev, entry.hash);
  }
  kept.heads.push(signedHead);
  chains.set(head.firstRunId, kept);
  return 204;
}

function isSigned(key: Buffer, headers: IncomingHttpHeaders, body: string): boolean {
  const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`;
  const expected = Buffer.from(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
  const given = Buffer.from(String(headers['webhook-signature']));
  return given.length === expected.length && timingSafeEqual(given, expected);
}
