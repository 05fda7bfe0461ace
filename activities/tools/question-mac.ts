/**
 * That a server has asked a question in the middle of a call, by the word of a worker of its zone.
 *
 * Owns the key and what the word is of. Does not own what becomes of an answer to a question without it (`provision-check.ts`).
 * 1. Only a worker of the zone can give it: the key is derived from the zone's private key (`grants.keys`), for this alone. Whoever
 *    ends a dispatch in its worker's place can show people a text, and no answer to that goes to a server (INV-G1).
 * 2. It is of the whole question as people are shown it, of the hash by which an answer is matched with what a server asks, and of
 *    the call, its arguments and server. The hash itself needs no key: it stays the same when keys rotate, and an answer with it.
 * 3. The first key gives it, all prove it. Where the key is gone, the question is asked anew.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { DispatchInput } from '../../contracts/dispatch.ts';
import type { SealingKey } from '../../contracts/schemas/config.ts';
import type { InputRequest, InputRequests } from '../../contracts/schemas/input.ts';
import { canonicalJson, hashOf } from '../../domain/canonical.ts';
import { derivedKeys } from './state-seal.ts';

const PURPOSE = 'countersign/question/v1';

/** In which it was asked. */
type AskedCall = Pick<DispatchInput, 'run' | 'callId' | 'target' | 'server' | 'arguments'>;

export interface QuestionMacs {
  marked(requests: InputRequests, call: AskedCall): InputRequests;
  /** Was a worker of the zone asked each of them, in this call and by this server? */
  areOurs(requests: InputRequests, call: AskedCall): boolean;
}

/** @param baseDirectory of the configuration file. The files are those that `loadPrivateKeys` has checked. */
export async function loadQuestionMacs(
  keys: readonly SealingKey[],
  baseDirectory: string,
): Promise<QuestionMacs | undefined> {
  return createQuestionMacs([...(await derivedKeys(keys, baseDirectory, PURPOSE)).values()]);
}

/** Undefined without a key: then no server is told that it may ask. */
export function createQuestionMacs(keys: readonly Uint8Array[]): QuestionMacs | undefined {
  const [newest] = keys;
  if (newest === undefined) return undefined;
  return {
    marked: (requests, call) =>
      Object.fromEntries(
        Object.entries(requests).map(([name, request]) => [
          name,
          { ...request, mac: macOf(newest, dataOf(call, name, request)).toString('hex') },
        ]),
      ),
    areOurs: (requests, call) =>
      Object.entries(requests).every(([name, request]) => {
        const given = Buffer.from(request.mac ?? '', 'hex');
        const data = dataOf(call, name, request);
        return keys.some((key) => isEqual(macOf(key, data), given));
      }),
  };
}

function macOf(key: Uint8Array, data: string): Buffer {
  return createHmac('sha256', key).update(data).digest();
}

function isEqual(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

function dataOf(
  { run, callId, target, server, arguments: args }: AskedCall,
  name: string,
  { mac: _, ...shown }: InputRequest,
): string {
  return canonicalJson({
    purpose: PURPOSE,
    namespace: run.namespace,
    workflowId: run.workflowId,
    callId,
    server: server.name,
    serverUrl: target.serverUrl,
    tool: target.tool,
    // After a reset another call may have its id.
    argumentsHash: hashOf(args),
    name,
    request: shown,
  });
}
