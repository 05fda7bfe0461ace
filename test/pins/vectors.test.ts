/**
 * Vectors of docs/vectors, by which clients in other languages compute hashes: they are what the domain makes, and what
 * two libraries that are not ours make. A vector that is published is never changed.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import canonicalize from 'canonicalize';
import { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { Message } from '../../contracts/schemas/transcript.ts';
import { definitionHash, requestDigest } from '../../domain/request/digest.ts';
import { EMPTY_DIGEST, extendDigest, GENESIS, verifyChain } from '../../domain/run/journal.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';

const FOLDER = join(import.meta.dirname, '../../docs/vectors');

function read<T>(name: string): T {
  // Sound: the tests read each of its fields.
  return JSON.parse(readFileSync(join(FOLDER, `${name}.json`), 'utf8')) as T;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** The parts of a request that its digest covers, with those that only tell where the call goes. */
const Shown = ApprovalRequest.pick({
  namespace: true,
  tenant: true,
  workflowId: true,
  runId: true,
  callId: true,
  generation: true,
  server: true,
  serverUrl: true,
  tool: true,
  definitionHash: true,
  arguments: true,
  approvers: true,
  about: true,
});

interface Digest {
  readonly name: string;
  readonly request: unknown;
  readonly canonical: string;
  readonly digest: string;
}
interface Definition {
  readonly name: string;
  readonly definition: unknown;
  readonly canonical: string;
  readonly hash: string;
}
interface Ledger {
  readonly genesis: string;
  readonly entries: readonly { readonly entry: unknown; readonly canonical: string }[];
  readonly head: string;
  readonly broken: readonly { readonly name: string; readonly at: number; readonly entries: readonly LedgerEntry[] }[];
}
interface Conversation {
  readonly empty: string;
  readonly vectors: readonly {
    readonly message: unknown;
    readonly canonical: string;
    readonly before: string;
    readonly digest: string;
  }[];
}

const digests = read<{ vectors: readonly Digest[] }>('request-digest').vectors;
const definitions = read<{ vectors: readonly Definition[] }>('definition-hash').vectors;
const ledger = read<Ledger>('ledger-chain');
const conversation = read<Conversation>('conversation-digest');

test('every file of vectors is checked here, and the digests differ', () => {
  expect(readdirSync(FOLDER).toSorted()).toEqual([
    'conversation-digest.json',
    'definition-hash.json',
    'ledger-chain.json',
    'request-digest.json',
  ]);
  expect(new Set(digests.map(({ digest }) => digest)).size).toBe(digests.length);
  expect(digests.length).toBeGreaterThan(5);
});

describe('the digest of a request', () => {
  test.each(digests)('$name', ({ request, canonical, digest }) => {
    const shown = Shown.parse(request);
    expect(shown).toEqual(request);
    expect(requestDigest({ ...shown, target: shown })).toBe(digest);
    expect(sha256(canonical)).toBe(digest);
    expect(canonicalize(JSON.parse(canonical))).toBe(canonical);
  });
});

describe('the hash of a definition', () => {
  test.each(definitions)('$name', ({ definition, canonical, hash }) => {
    expect(definitionHash(ToolDefinition.parse(definition))).toBe(hash);
    expect(sha256(canonical)).toBe(hash);
    expect(canonicalize(JSON.parse(canonical))).toBe(canonical);
  });
});

describe('the chain of a ledger', () => {
  const entries = ledger.entries.map(({ entry }) => LedgerEntry.parse(entry));

  test('each entry has the hash of the rest of it, and follows the one before', () => {
    expect(ledger.genesis).toBe(GENESIS);
    expect(verifyChain(entries)).toEqual({ kind: 'intact', head: ledger.head, length: entries.length });
    for (const [index, { entry, canonical }] of ledger.entries.entries()) {
      const { hash, ...body } = LedgerEntry.parse(entry);
      expect(entries[index]).toEqual(entry);
      expect(canonicalJson(body)).toBe(canonical);
      expect(canonicalize(body)).toBe(canonical);
      expect(sha256(canonical)).toBe(hash);
    }
  });

  test.each(ledger.broken)('$name: it breaks at $at', ({ at, entries: broken }) => {
    expect(verifyChain(broken)).toMatchObject({ kind: 'broken', seq: at });
  });
});

test('the digest of a conversation goes on from the one before', () => {
  expect(conversation.empty).toBe(EMPTY_DIGEST);
  let digest = EMPTY_DIGEST;
  for (const { message, canonical, before, digest: after } of conversation.vectors) {
    expect(before).toBe(digest);
    expect(canonicalize(message)).toBe(canonical);
    expect(sha256(before + canonical)).toBe(after);
    digest = extendDigest(before, Message.parse(message));
    expect(digest).toBe(after);
  }
});
