/**
 * Seals what a server gave for another worker to take up again (INV-S1).
 *
 * That is its `requestState` while people answer, the place of a call's answer after a worker is lost, or a task while
 * the server works on it. The file owns the keys, what a seal is bound to, and the state of a pause. It does not own
 * when other seals are opened (`activities/gate/legacy-2025/seals.ts`).
 * 1. Only a worker of the zone can make or open a seal: its key is derived from the zone's private key (`grants.keys`),
 *    which no client has. A state that somebody else wrote into a history does not open.
 * 2. A seal opens for one namespace, run, call, round or attempt, server, its URL and tool. The seal of a pause also
 *    opens only for its questions.
 * 3. The first key seals, and all keys open, because keys rotate while people think. A state that does not open is no
 *    failure: the call begins anew.
 */
import { createPrivateKey, hkdfSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { decodeProtectedHeader, flattenedDecrypt, FlattenedEncrypt } from 'jose';
import { CountersignError } from '../../contracts/errors.ts';
import type { PrivateKeyFile } from '../../contracts/schemas/config.ts';
import type { TokenEvidence } from '../../contracts/schemas/call.ts';
import type { InputRequests, SealedState } from '../../contracts/schemas/input.ts';
import type { InputLeg } from '../../contracts/wire/proofs.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { answersTo, MOST_ROUNDS } from '../../domain/request/input.ts';
import { answersOf } from '../../domain/request/provision.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import type { CallEnding, ToolInput } from './port.ts';

/** RFC 7518 §4.5 and §5.3: the derived key encrypts by itself. */
const ALG = 'dir';
const ENC = 'A256GCM';
const PURPOSE = 'countersign/request-state/v1';

/**
 * The purpose of a seal. It opens under an equal binding alone; `use` keeps the seal of one use from opening as
 * another's.
 */
export type SealBinding = Readonly<Record<string, string | number>>;

/**
 * The part of every binding that names the call. A server has its name in it: two may have one address, and other
 * credentials.
 */
export function callBinding({
  run: { namespace, workflowId },
  callId,
  server,
  target: { serverUrl, tool },
}: Pick<DispatchInput, 'run' | 'callId' | 'server' | 'target'>): SealBinding {
  return { namespace, workflowId, callId, server: server.name, serverUrl, tool };
}

export type StateSeal = NonNullable<ReturnType<typeof createStateSeal>>;

/**
 * Loads the seal; undefined if no key is configured, and then no server is told that it may ask.
 *
 * @param baseDirectory directory of the configuration file; `loadPrivateKeys` has checked the key files
 */
export async function loadStateSeal(
  keys: readonly PrivateKeyFile[],
  baseDirectory: string,
): Promise<StateSeal | undefined> {
  return createStateSeal(await derivedKeys(keys, baseDirectory, PURPOSE));
}

/** Keys by their ids, the newest first. */
export async function derivedKeys(
  keys: readonly PrivateKeyFile[],
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

export function createStateSeal(keys: ReadonlyMap<string, Uint8Array>) {
  const [newest] = keys;
  if (newest === undefined) return undefined;
  const [kid, key] = newest;
  return {
    async seal(state: string, binding: SealBinding): Promise<SealedState> {
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
    /** Undefined if it does not open: sealed elsewhere, for something else, or to a key that is gone. */
    async open(sealed: SealedState, binding: SealBinding): Promise<string | undefined> {
      const { protected: header, iv, ciphertext, tag } = sealed;
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

// The state of a server that asks people, while they answer. It is sealed together with the questions, even if the
// server gave no state: nothing else proves which questions people have answered.

/** Prefixes of the sealed text: a state may be empty, and a server may give none. */
const STATE = '+';
const NO_STATE = '-';

export async function goingOn(
  dispatch: DispatchInput,
  { provided, leg }: NonNullable<DispatchInput['input']>,
  seal: StateSeal,
): Promise<ToolInput> {
  const answers = answersOf(provided);
  const begins = { answers, dispatch: `${leg?.round ?? 0}.${dispatch.attempt}` };
  if (leg === undefined) return begins;
  const opened = await openedLeg(leg, dispatch, seal);
  if (opened === undefined) return { ...begins, begunAnew: true };
  const used = [...leg.used, ...Object.values(leg.requests).map(({ hash }) => hash)];
  const { responses } = answersTo(leg.requests, answers);
  return { ...begins, leg: { responses, used, ...opened } };
}

/** Undefined if it cannot be told that a worker of the zone was asked these questions. */
async function openedLeg(
  leg: InputLeg,
  dispatch: DispatchInput,
  seal: StateSeal,
): Promise<{ readonly state?: string } | undefined> {
  const sealed = leg.state && (await seal.open(leg.state, legBindingOf(dispatch, leg)));
  if (sealed === undefined) return undefined;
  return sealed.startsWith(STATE) ? { state: sealed.slice(STATE.length) } : {};
}

interface Sealing {
  readonly seal?: StateSeal | undefined;
  /** Marks questions as this zone's own (`activities/gate/legacy-2025/open-question.ts`). */
  readonly macs?: { marked(requests: InputRequests, dispatch: DispatchInput): InputRequests } | undefined;
}

export async function pausedBy(
  { requests, state, used }: Extract<CallEnding, { kind: 'input' }>,
  dispatch: DispatchInput,
  { seal, macs }: Sealing,
  token: TokenEvidence,
): Promise<DispatchResult> {
  const round = (dispatch.input?.leg?.round ?? 0) + 1;
  if (round > MOST_ROUNDS) {
    const why = `Tool "${dispatch.target.tool}" of server "${dispatch.server.name}" asked for input more than ${MOST_ROUNDS} times, and has not said whether anything was done. Find out at the server before anything is done again.`;
    return { kind: 'ended', token, outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: why } };
  }
  // Servers are told that they may ask only if there is a key.
  if (seal === undefined || macs === undefined) throw new Error('a server has asked what nothing can seal');
  const asked = { kind: 'input', round, requests: macs.marked(requests, dispatch), used, token } as const;
  const binding = legBindingOf(dispatch, { round, requests, used });
  return { ...asked, state: await seal.seal(state === undefined ? NO_STATE : `${STATE}${state}`, binding) };
}

/** Binds to the questions too, so that people's answers go to these and to no others. */
function legBindingOf(dispatch: DispatchInput, { round, requests, used }: Omit<InputLeg, 'state'>): SealBinding {
  const hashes = Object.fromEntries(Object.entries(requests).map(([key, { hash }]) => [key, hash]));
  const asked = hashOf({ requests: hashes, used });
  return { use: 'leg', ...callBinding(dispatch), round, argumentsHash: hashOf(dispatch.arguments), asked };
}
