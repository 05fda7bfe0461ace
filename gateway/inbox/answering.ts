/**
 * Sends to runs what people say, in the name of the person whom the token names.
 *
 * 1. The sender is never read from a body, and the digest always is: a decision binds what its sender was shown.
 * 2. The run judges. This file only hides runs that the person may not see, and keeps writing to runs and stopping them
 *    to their initiators and administrators: in trust mode `temporal` runs believe every sender.
 * 3. A message sent again under its id counts once. An id that was made here is told with an uncertain result.
 */
import { createHash, randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Client } from '@temporalio/client';
import { Countersign, type CountersignOptions } from '../../client/countersign.ts';
import type { RunHandle } from '../../client/run/run-handle.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { DecisionBody, StartRun } from '../../contracts/schemas/http-api.ts';
import { Identifier } from '../../contracts/schemas/json.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import type { StartCall } from '../../contracts/schemas/http/calls.ts';
import type { CallSpecInput, Initiator, RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import type { CallOptions, SingleCall } from '../../client/run/single-call.ts';
import type { Signer } from '../../client/signing/signing.ts';
import { isSamePerson } from '../../domain/policy/approvers.ts';
import { namedIn } from '../../domain/request/decision.ts';
import type { z } from 'zod';
import type { Asker } from '../identity/person.ts';
import { Misfit } from '../http/problem.ts';
import type { Opened } from '../projection/opened.ts';
import type { Projection } from '../projection/projection.ts';
import type { Reading, Seen } from './reading.ts';

export const MOST_GROUPS = 100;

export interface AnsweringOptions {
  readonly artifacts?: CountersignOptions['artifacts'] | undefined;
  readonly taskQueue: string;
  readonly client: Client;
  readonly signer?: Signer | undefined;
  /** Hears of each answer; `refusal` is absent if the run took it. */
  readonly onAnswer?: ((kind: unknown, refusal?: ErrorCode) => void) | undefined;
}

interface Parts {
  readonly reading: Reading;
  readonly opened: Opened;
  readonly projection: Pick<Projection, 'touch'>;
}

export type Said = Pick<DecisionBody, 'decisionId' | 'runId' | 'digest'>;
export type Complete<Body> = Body & { decisionId: string; callId: string; runId: string; approver: Approver };

export interface Place {
  readonly run: string;
  readonly callId: string;
  /** Header `Idempotency-Key`. */
  readonly key?: string | undefined;
}

export class Answering {
  readonly #options: AnsweringOptions;
  readonly #parts: Parts;
  readonly #own: Countersign;
  /** Message of a person → Temporal run id that it named. People choose ids of messages, so each has their own. */
  readonly #executions = new LRUCache<string, string>({ max: 10_000 });
  /** Messages without groups of their own are signed with those of the signer. */
  readonly #ofGroups = new LRUCache<string, Countersign>({ max: 1_000 });

  constructor(options: AnsweringOptions, parts: Parts) {
    this.#options = options;
    this.#parts = parts;
    this.#own = this.#make(options.signer);
  }

  #make(signer: Signer | undefined): Countersign {
    const { client, artifacts, taskQueue } = this.#options;
    return new Countersign({ client, taskQueue, ...defined({ artifacts, signer }) });
  }

  #for({ groups }: Asker): Countersign {
    const { signer } = this.#options;
    if (signer === undefined) return this.#own;
    const key = JSON.stringify(groups);
    const known = this.#ofGroups.get(key);
    if (known !== undefined) return known;
    const made = this.#make({ ...signer, groups });
    this.#ofGroups.set(key, made);
    return made;
  }

  /** @throws CountersignError as `Countersign.startRun` */
  async start(
    asker: Asker,
    { runId: named, spec }: z.infer<typeof StartRun>,
    key: string | undefined,
  ): Promise<{ readonly runId: string; readonly started: boolean }> {
    if (!asker.may.has('start'))
      throw forbidden(
        'You may not start runs here. Ask an operator to name you, or a group of yours, in gateway.may.start.',
      );
    const runId = runIdOf(asker, named, key);
    // Sound: a parsed spec is one that a caller may write.
    const whole = { ...spec, initiator: initiatorOf(asker) } as RunSpecInput;
    const { started } = await once(runId, async () => await this.#for(asker).startRun({ runId, spec: whole }));
    return { runId, started };
  }

  /** @throws CountersignError as `Countersign.call` */
  async call(
    asker: Asker,
    {
      runId: named,
      waitSeconds: _,
      ...call
    }: Omit<StartCall, 'waitSeconds' | 'limits' | 'grants'> & Partial<StartCall>,
    { key, ...how }: { readonly key?: string | undefined } & Partial<Pick<CallOptions, 'ticketId' | 'dispatch'>> = {},
  ): Promise<SingleCall> {
    if (!asker.may.has('start'))
      throw forbidden(
        'You may not start calls here. Ask an operator to name you, or a group of yours, in gateway.may.start.',
      );
    const runId = runIdOf(asker, named, key);
    // Sound: a parsed call is one that a caller may write.
    const whole = { ...call, initiator: initiatorOf(asker) } as CallSpecInput;
    return await once(runId, async () => await this.#for(asker).call({ runId, call: whole, ...how }));
  }

  /** Sends an answer to a request. @param send gets the message with its ids and its sender */
  async answer<Body extends Said, Ack>(
    asker: Asker,
    place: Place,
    body: Body,
    send: (run: RunHandle, message: Complete<Body>) => Promise<Ack>,
  ): Promise<Ack> {
    const { onAnswer } = this.#options;
    const kind = 'kind' in body ? body.kind : undefined;
    try {
      const ack = await this.#answer(asker, place, body, send);
      onAnswer?.(kind);
      return ack;
    } catch (error) {
      onAnswer?.(kind, error instanceof CountersignError ? error.code : 'INTERNAL');
      throw error;
    }
  }

  async #answer<Body extends Said, Ack>(
    asker: Asker,
    { run: runId, callId, key }: Place,
    body: Body,
    send: (run: RunHandle, message: Complete<Body>) => Promise<Ack>,
  ): Promise<Ack> {
    const { reading, opened } = this.#parts;
    const { run } = await reading.seen(runId, asker);
    const shown = await opened.requests(runId).catch(() => []);
    const current = shown.find((request) => request.callId === callId);
    // A person who may see one request of a run may not see all of them.
    if (current !== undefined) await reading.requestOf(runId, callId, asker);
    const decisionId = body.decisionId ?? idIn(key) ?? randomUUID();
    const sent = JSON.stringify([asker.tenant, asker.id, runId, decisionId]);
    // A message sent again names the same execution, also after the request is gone.
    const execution = body.runId ?? this.#executions.get(sent) ?? current?.runId ?? (await opened.state(runId)).runId;
    this.#executions.set(sent, execution);
    const approver = this.#approverOf(asker, runId);
    try {
      return await send(this.#for(asker).run(run.runId), { ...body, decisionId, callId, runId: execution, approver });
    } catch (error) {
      throw withId(error, { decisionId });
    } finally {
      this.#changed(runId);
    }
  }

  #approverOf({ id, groups }: Asker, runId: string): Approver {
    if (groups.length <= MOST_GROUPS) return { id, groups: [...groups] };
    return namedIn(this.#parts.opened.knownRules(runId), { id, groups: [...groups] });
  }

  /** @throws CountersignError `ACTION_FORBIDDEN` for people who may only see the run */
  async tell<Ack>(
    asker: Asker,
    runId: string,
    message: { readonly messageId?: string | undefined; readonly key?: string | undefined },
    send: (run: RunHandle, messageId: string) => Promise<Ack>,
  ): Promise<Ack> {
    const seen = await this.#parts.reading.seen(runId, asker);
    if (!mayTell(seen, asker))
      throw forbidden(`Only ${seen.initiator} and administrators may write to run ${runId} or stop it.`);
    const messageId = message.messageId ?? idIn(message.key) ?? randomUUID();
    try {
      return await send(this.#for(asker).run(runId), messageId);
    } catch (error) {
      throw withId(error, { messageId });
    } finally {
      this.#changed(runId);
    }
  }

  /** Sends what a run judges by the rule of an earlier request. */
  async forget<Ack>(asker: Asker, runId: string, send: (run: RunHandle, by: Approver) => Promise<Ack>): Promise<Ack> {
    await this.#parts.reading.seen(runId, asker);
    try {
      return await send(this.#for(asker).run(runId), this.#approverOf(asker, runId));
    } finally {
      this.#changed(runId);
    }
  }

  #changed(runId: string): void {
    this.#parts.opened.forget(runId);
    this.#parts.projection.touch(runId);
  }
}

export function mayTell({ initiator }: Pick<Seen, 'initiator'>, asker: Asker): boolean {
  return isSamePerson(asker, initiator, asker.id) || asker.may.has('administer');
}

function forbidden(message: string): CountersignError {
  return new CountersignError('ACTION_FORBIDDEN', message);
}

/** Groups in one order: providers list them in any, and they are part of what was started. */
function initiatorOf({ id, groups, tenant }: Asker): Initiator {
  const distinct = [...new Set(groups)].toSorted();
  if (distinct.length <= MOST_GROUPS) return { id, groups: distinct, tenant };
  const message = `Your token has ${distinct.length} groups; what starts a run has at most ${MOST_GROUPS}. Have the provider leave out some.`;
  throw new CountersignError('SPEC_INVALID', message, { path: 'initiator.groups' });
}

/** A new id would start the same work again, which is the wrong way out of a conflict. */
async function once<T>(runId: string, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RUN_ID_CONFLICT') throw error;
    const message = `${error.message} Your groups are part of it: if only they have changed since, read run ${runId} instead of starting it again.`;
    throw new CountersignError(error.code, message, error.facts, { cause: error });
  }
}

function runIdOf(asker: Asker, named: string | undefined, key: string | undefined): string {
  return named ?? (key === undefined ? `run-${randomUUID()}` : idOf(asker, key));
}

/** One key names one run of one person, and tells nothing of either. */
function idOf({ tenant, id }: Asker, key: string): string {
  return `api-${createHash('sha256')
    .update(JSON.stringify([tenant, id, key]))
    .digest('hex')
    .slice(0, 32)}`;
}

/** @throws Misfit for a key that is no id */
export function idIn(key: string | undefined): string | undefined {
  if (key === undefined) return undefined;
  if (Identifier.safeParse(key).success) return key;
  const reason = 'must be 1 to 200 printable ASCII characters without spaces';
  throw new Misfit([{ path: 'Idempotency-Key', reason }], 'header');
}

export function withId(error: unknown, ids: Readonly<Record<string, string>>): unknown {
  if (!(error instanceof CountersignError)) return error;
  return new CountersignError(error.code, error.message, { ...error.facts, ...ids }, { cause: error });
}
