/**
 * Seals what a server gave for another worker to take up again (INV-S1).
 *
 * That is its `requestState` while people answer, the place of a call's answer after a worker is lost, or a task while
 * the server works on it. The file owns the keys and what a seal is bound to. It does not own when a seal is opened
 * (`input-round.ts`, `activities/gate/legacy-2025/seals.ts`, `activities/gate/legacy-2025/seals.ts`).
 * 1. Only a worker of the zone can make or open a seal: its key is derived from the zone's private key (`grants.keys`),
 *    which no client has. A state that somebody else wrote into a history does not open.
 * 2. A seal opens for one namespace, run, call, round or attempt, and server URL. The seal of a pause also opens only
 *    for its questions; one from which a token follows opens only for one server and tool. The sealed text does not
 *    repeat what it is bound to.
 * 3. The first key seals, and all keys open, because keys rotate while people think. A state that does not open is no
 *    failure: see `input-round.ts`.
 */
import { createPrivateKey, hkdfSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { decodeProtectedHeader, flattenedDecrypt, FlattenedEncrypt } from 'jose';
import { CountersignError } from '../../contracts/errors.ts';
import type { SealingKey } from '../../contracts/schemas/config.ts';
import type { SealedState } from '../../contracts/schemas/input.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';

/** RFC 7518 §4.5 and §5.3: the derived key encrypts by itself. */
const ALG = 'dir';
const ENC = 'A256GCM';
const PURPOSE = 'countersign/request-state/v1';

export interface StateBinding {
  readonly namespace: string;
  readonly workflowId: string;
  readonly callId: string;
  /** Round of the pause, from 1. */
  readonly round: number;
  /** Canonical server URL. */
  readonly serverUrl: string;
}

/**
 * Binding of the place of an answer. A call that another Temporal run sent counts as another call, here as elsewhere.
 */
export interface AnswerBinding {
  readonly answerTo: 'tools/call';
  readonly namespace: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly callId: string;
  readonly attempt: number;
  /** Name of the server: two may have one address, and other credentials. */
  readonly server: string;
  readonly serverUrl: string;
  readonly tool: string;
  readonly argumentsHash: string;
}

/** Binding to the questions, so that people's answers go to these questions and to no others. */
export interface LegBinding extends StateBinding {
  readonly use: 'leg';
  /** Name of the server. */
  readonly server: string;
  readonly tool: string;
  readonly argumentsHash: string;
  /** Hash over the hashes of the questions, and of those that were answered before. */
  readonly asked: string;
}

/** Binding of a task. A seal of one use never opens as one of another. */
export interface TaskBinding extends Omit<StateBinding, 'round'> {
  readonly use: 'task';
  /** The dispatch that began it. */
  readonly attempt: number;
  /** Name of the server, and the tool: a token for polling is for these (INV-S2). */
  readonly server: string;
  readonly tool: string;
}

export type SealBinding = StateBinding | AnswerBinding | LegBinding | TaskBinding;

export interface StateSeal {
  seal(state: string, binding: SealBinding): Promise<SealedState>;
  /** Undefined if it does not open: sealed elsewhere, for something else, or to a key that is gone. */
  open(sealed: SealedState, binding: SealBinding): Promise<string | undefined>;
}

/**
 * Loads the seal; undefined if no key is configured, and then no server is told that it may ask.
 *
 * @param baseDirectory directory of the configuration file; `loadPrivateKeys` has checked the key files
 */
export async function loadStateSeal(
  keys: readonly SealingKey[],
  baseDirectory: string,
): Promise<StateSeal | undefined> {
  return createStateSeal(await derivedKeys(keys, baseDirectory, PURPOSE));
}

/** Keys by their ids, the newest first. */
export async function derivedKeys(
  keys: readonly SealingKey[],
  baseDirectory: string,
  purpose: string,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const derived = new Map<string, Uint8Array>();
  for (const { kid, privateKeyFile } of keys)
    derived.set(kid, derivedFrom(await readFile(resolve(baseDirectory, privateKeyFile), 'utf8'), purpose));
  return derived;
}

/** Derives a key by RFC 5869: it reveals nothing about the private key, nor about a key derived for another purpose. */
export function derivedFrom(pem: string, purpose = PURPOSE): Uint8Array {
  const { d } = createPrivateKey(pem).export({ format: 'jwk' });
  if (d === undefined) throw new CountersignError('INTERNAL', 'A private key has no private part.');
  return new Uint8Array(hkdfSync('sha256', Buffer.from(d, 'base64url'), '', purpose, 32));
}

export function createStateSeal(keys: ReadonlyMap<string, Uint8Array>): StateSeal | undefined {
  const [newest] = keys;
  if (newest === undefined) return undefined;
  const [kid, key] = newest;
  return {
    async seal(state, binding) {
      const jwe = await new FlattenedEncrypt(new TextEncoder().encode(state))
        .setProtectedHeader({ alg: ALG, enc: ENC, kid })
        .setAdditionalAuthenticatedData(dataOf(binding))
        .encrypt(key);
      const { protected: header, iv, ciphertext, tag } = jwe;
      if (header === undefined || iv === undefined || tag === undefined)
        throw new CountersignError('INTERNAL', 'The sealed state came out incomplete; report this as a bug.');
      // The binding is computed when it is opened, never read from the seal.
      return { protected: header, iv, ciphertext, tag };
    },
    async open({ protected: header, iv, ciphertext, tag }, binding) {
      try {
        const { kid: named } = decodeProtectedHeader({ protected: header });
        const opener = typeof named === 'string' ? keys.get(named) : undefined;
        if (opener === undefined) return undefined;
        const aad = Buffer.from(dataOf(binding)).toString('base64url');
        const { plaintext } = await flattenedDecrypt({ protected: header, iv, ciphertext, tag, aad }, opener, {
          keyManagementAlgorithms: [ALG],
          contentEncryptionAlgorithms: [ENC],
        });
        // A TextDecoder would drop a leading byte order mark, and servers compare their states to the byte.
        return Buffer.from(plaintext).toString('utf8');
      } catch {
        return undefined;
      }
    },
  };
}

function dataOf(binding: SealBinding): Uint8Array {
  return new TextEncoder().encode(canonicalJson({ purpose: PURPOSE, ...binding }));
}
