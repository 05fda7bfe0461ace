/**
 * Makes and verifies the MAC of what workers of a zone write, and gives the answers of activities the claims that the
 * MAC covers (docs/adr/0047). Whether claims are those that a workflow waits for is asked elsewhere.
 *
 * 1. Only workers have a key; a client's codecs leave these fields as they are, and nobody reads them there.
 * 2. The mark for "proven" is set in memory by this file alone: an incoming one is removed.
 * 3. The MAC is over claims, encoding and data, each with its length, and for this purpose alone. The first key makes
 *    it, all keys verify.
 * 4. Type, namespace and workflow id come from Temporal, and the digest from what this worker got. Chain and place come
 *    from the workflow, and are believed of workflows on the queue of our runs alone.
 * 5. A failure stays as it is, with one detail more. A failure that stops an activity from outside has none.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { ApplicationFailure, CancelledFailure, CompleteAsyncError, type Info } from '@temporalio/activity';
import { defaultPayloadConverter, type Headers, type Payload, type PayloadCodec } from '@temporalio/common';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { StartProofParts } from '../activities/trust/start-proof.ts';
import type { CodecKey } from '../contracts/schemas/json.ts';
import {
  type AnswerClaims,
  claimedValue,
  CLAIMS_FIELD,
  KEY_FIELD,
  MAC_FIELD,
  type Place,
  PLACE_HEADER,
  PROVEN_FIELD,
  type ProvenFailure,
  UNKNOWN_KEY_FIELD,
} from '../contracts/zone.ts';
import { claimsText, digestOfInput } from '../domain/signing/zone.ts';

const PURPOSE = 'countersign/zone/v1';

type Metadata = NonNullable<Payload['metadata']>;

export class ZoneCodec implements PayloadCodec {
  readonly #keys: ReadonlyMap<string, Uint8Array>;
  readonly #tell: (reason: Exclude<Verdict, 'proven'>) => void;

  constructor(keys: readonly CodecKey[], tell: (reason: Exclude<Verdict, 'proven'>) => void = () => undefined) {
    this.#tell = tell;
    this.#keys = new Map(keys.map(({ id, key }) => [id, Buffer.from(key, 'base64')]));
  }

  async encode(payloads: Payload[]): Promise<Payload[]> {
    const [newest] = this.#keys;
    return payloads.map((payload) => {
      const { [CLAIMS_FIELD]: claims } = payload.metadata ?? {};
      const bare = without(payload, MAC_FIELD, KEY_FIELD, PROVEN_FIELD, UNKNOWN_KEY_FIELD);
      if (claims === undefined || newest === undefined) return without(bare, CLAIMS_FIELD);
      const [id, key] = newest;
      const proof = { [KEY_FIELD]: Buffer.from(id), [MAC_FIELD]: macOf(key, claims, payload) };
      return { ...bare, metadata: { ...bare.metadata, ...proof } };
    });
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) =>
      marked(payload, (claims, id, mac) => {
        const verdict = this.#verify(payload, claims, id, mac);
        // Without keys nothing is checked.
        if (verdict !== 'proven' && this.#keys.size > 0) this.#tell(verdict);
        return verdict;
      }),
    );
  }

  #verify(payload: Payload, claims: Uint8Array, id: string, mac: Uint8Array): Verdict {
    const key = this.#keys.get(id);
    if (key === undefined) return 'unknown-key';
    const own = macOf(key, claims, payload);
    return own.length === mac.length && timingSafeEqual(own, mac) ? 'proven' : 'unproven';
  }
}

/** For replays without keys: a payload with a MAC counts as it did where it was recorded, unless it was forged. */
export class UncheckedZoneCodec implements PayloadCodec {
  async encode(payloads: Payload[]): Promise<Payload[]> {
    return payloads;
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => marked(payload, () => 'proven'));
  }
}

type Verdict = 'proven' | 'unproven' | 'unknown-key';

function marked(payload: Payload, verify: (claims: Uint8Array, id: string, mac: Uint8Array) => Verdict): Payload {
  // Any sender may send a payload without metadata.
  const { [CLAIMS_FIELD]: claims, [MAC_FIELD]: mac, [KEY_FIELD]: id } = payload?.metadata ?? {};
  const bare = without(payload, CLAIMS_FIELD, MAC_FIELD, KEY_FIELD, PROVEN_FIELD, UNKNOWN_KEY_FIELD);
  if (!claims || !mac || !id) return bare;
  const verdict = verify(claims, Buffer.from(id).toString('utf8'), mac);
  if (verdict === 'unproven') return bare;
  const mark = verdict === 'proven' ? { [PROVEN_FIELD]: claims } : { [UNKNOWN_KEY_FIELD]: id };
  return { ...bare, metadata: { ...bare.metadata, ...mark } };
}

function without(payload: Payload, ...names: readonly string[]): Payload {
  const { metadata } = payload ?? {};
  if (!metadata || !names.some((name) => name in metadata)) return payload;
  const kept: Metadata = Object.fromEntries(Object.entries(metadata).filter(([name]) => !names.includes(name)));
  return { ...payload, metadata: kept };
}

function macOf(key: Uint8Array, claims: Uint8Array, { metadata, data }: Payload): Buffer {
  const hmac = createHmac('sha256', key).update(`${PURPOSE}\0`);
  for (const part of [claims, metadata?.['encoding'] ?? new Uint8Array(), data ?? new Uint8Array()]) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(part.length));
    hmac.update(length).update(part);
  }
  return hmac.digest();
}

/** `taskQueue` is that of runs and catalogs. */
type ZoneOfRuns = Pick<StartProofParts, 'readExecution' | 'taskQueue'>;

/** Waits between reads of the scheduling execution; if none succeeds, the answer counts as a lost one. */
const PAUSES_MS = [100, 500, 2_000];

export function createZoneInterceptor(zone: ZoneOfRuns): ActivityInterceptorsFactory {
  return ({ info }) => ({
    inbound: {
      execute: async (input, next) => {
        const place = placeIn(input.headers);
        if (place === undefined) return await next(input);
        // Claims are read while the activity runs. The digest is taken before, since the activity may change its input.
        const claiming = claimsFor(zone, info, place, digestOfInput(input.args));
        try {
          const result = await next(input);
          const claims = await claiming;
          return claims === undefined ? result : claimedValue(result, claimsText({ ...claims, kind: 'result' }));
        } catch (error) {
          if (isStopped(error)) throw error;
          const claims = await claiming;
          throw claims === undefined ? error : claimedFailure(error, { ...claims, kind: 'failure' });
        }
      },
    },
  });
}

function placeIn(headers: Headers): Place | undefined {
  const payload = headers[PLACE_HEADER];
  if (payload === undefined) return undefined;
  try {
    const { chain, place, at } = defaultPayloadConverter.fromPayload<Partial<Record<keyof Place, unknown>>>(payload);
    const isPlace = typeof chain === 'string' && typeof place === 'number' && typeof at === 'number';
    return isPlace ? { chain, place, at } : undefined;
  } catch {
    // The scheduler of an activity may write any input.
    return undefined;
  }
}

/** Returns undefined if nothing is claimed: the workflow is none of ours, or Temporal does not say. */
async function claimsFor(
  { readExecution, taskQueue }: ZoneOfRuns,
  { workflowExecution, workflowNamespace, namespace, activityType }: Info,
  place: Place,
  input: string,
): Promise<Omit<AnswerClaims, 'kind'> | undefined> {
  if (workflowExecution === undefined) return undefined;
  const { workflowId, runId } = workflowExecution;
  for (const ms of [...PAUSES_MS, undefined]) {
    try {
      const facts = await readExecution(workflowId, runId, 'living');
      if (facts?.taskQueue !== taskQueue) return undefined;
      return { ...place, activity: activityType, namespace: workflowNamespace ?? namespace, workflowId, input };
    } catch {
      if (ms !== undefined) await pause(ms);
    }
  }
  return undefined;
}

function claimedFailure(error: unknown, claims: AnswerClaims): ApplicationFailure {
  const { type, message, details } = ApplicationFailure.fromError(error);
  const [facts = {}, ...others] = details ?? [];
  const said: ProvenFailure = { ...(typeof type === 'string' ? { type } : {}), message, facts };
  return ApplicationFailure.fromError(error, { details: [facts, ...others, claimedValue(said, claimsText(claims))] });
}

function isStopped(error: unknown): boolean {
  if (error instanceof CancelledFailure || error instanceof CompleteAsyncError) return true;
  return error instanceof Error && error.name === 'AbortError';
}
