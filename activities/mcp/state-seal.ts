/**
/**
 * What a server gave to be taken up again by another worker, sealed (INV-S1): its `requestState`, for the time in which people
 * answer; where a call's answer comes, for the time after a worker is lost; a task, for the time in which its server works on it.
 *
 * Owns the keys and what is sealed is bound to. Does not own when it is opened (`input-round.ts`, `activities/gate/legacy-2025/resume-point.ts`, `activities/gate/legacy-2025/task-seal.ts`).
 * 1. Only a worker of the zone can make or open one: the key is derived from the zone's private key (`grants.keys`), which no
 *    client has. A state that somebody else wrote into a history does not open.
 * 2. It opens for one namespace, run, call, round or attempt, and server URL; that of a pause for its questions, and where a token is
 *    given for it for one server and tool. What it was sealed with elsewhere is not said in it.
 * 3. The first key seals, all open: keys rotate while people think. A state that does not open is no failure: see `input-round.ts`.
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
  /** Of the pause, from 1. */
  readonly round: number;
  /** Canonical server URL. */
  readonly serverUrl: string;
}

/** Of where an answer comes. A call that was sent by another Temporal run, as other calls are, is another call. */
export interface AnswerBinding {
  readonly answerTo: 'tools/call';
  readonly namespace: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly callId: string;
  readonly attempt: number;
  /** Its name: two may have one address, and other credentials. */
  readonly server: string;
  readonly serverUrl: string;
  readonly tool: string;
  readonly argumentsHash: string;
}

/** With what was asked, so that what people answer goes to these questions and to no others. */
export interface LegBinding extends StateBinding {
  readonly use: 'leg';
  /** Its name. */
  readonly server: string;
  readonly tool: string;
  readonly argumentsHash: string;
  /** Of the hashes of the questions, and of those that were answered before. */
  readonly asked: string;
}

/** No state of one use opens as one of the other. */
export interface TaskBinding extends Omit<StateBinding, 'round'> {
  readonly use: 'task';
  /** The dispatch that began it. */
  readonly attempt: number;
  /** Its name, and the tool: a token for asking is for these (INV-S2). */
  readonly server: string;
  readonly tool: string;
}

export type SealBinding = StateBinding | AnswerBinding | LegBinding | TaskBinding;

export interface StateSeal {
  seal(state: string, binding: SealBinding): Promise<SealedState>;
  /** Undefined where it does not open: sealed elsewhere, for something else, or to a key that is gone. */
  open(sealed: SealedState, binding: SealBinding): Promise<string | undefined>;
}

/**
 * Undefined where no key is configured: then no server is told that it may ask.
 *
 * @param baseDirectory of the configuration file. The files are those that `loadPrivateKeys` has checked.
 */
export async function loadStateSeal(
  keys: readonly SealingKey[],
  baseDirectory: string,
): Promise<StateSeal | undefined> {
  return createStateSeal(await derivedKeys(keys, baseDirectory, PURPOSE));
}

/** By their ids, the newest first. */
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

/** RFC 5869: what is made of the private key for this purpose tells nothing of it, nor of what is made for another. */
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
      // What it is bound to is computed when it is opened, never read from it.
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
        // Not a TextDecoder, which leaves a leading byte order mark out: servers compare their states to the byte.
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
