/**
 * The activity that sends one message through one channel. It runs on workers of role `runs`, which alone have the
 * secrets of channels.
 *
 * 1. A message is scrubbed of every secret that this worker knows before a channel sees it (INV-S1).
 * 2. Its links are made of the configured address alone.
 * 3. Only a run has it sent, and only about itself. A channel with a digest is not sent to at once: what the run has to
 *    tell is handed over (`digest.ts`).
 * 4. A message that can be answered binds what the run asks when it is sent. What has changed meanwhile cannot be
 *    answered by it, and a run that cannot be read costs the buttons, never the message.
 * 5. A channel that does not answer holds a few tries at a time. All activities of a worker share its places: messages
 *    that wait in many of them would hold up the steps of runs.
 */
import { RUN_WORKFLOW } from '../../contracts/names.ts';
import type { NotifyConfig } from '../../contracts/schemas/channels.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { shownArguments } from '../../domain/policy/redaction.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { argumentsLine, jsonLine } from '../../domain/text/shown-json.ts';
import { Digest, Gathered, type MessageEvent } from '../../contracts/schemas/notify.ts';
import type { MessageInput, MessageSent, ToldRequest, ToldRun } from '../../contracts/wire/notify.ts';
import { faultName, type Scheduler } from '../kit/activity.ts';
import { ownValue } from '../kit/json.ts';
import {
  type Answerable,
  type LinkedRequest,
  type Message,
  type MessageChannel,
  refusedBy,
  undelivered,
} from './port.ts';

export type TellMessage = (told: {
  readonly channel: string;
  readonly event: MessageEvent | 'digest';
  readonly result: 'sent' | 'failed';
}) => void;

type ReadRequests = (workflowId: string) => Promise<readonly ApprovalRequest[]>;

/** Tries at a time of a channel in trouble, of the hundred activities or fewer that a worker does at once. */
const MOST_AT_ONCE = 8;
/** A try that takes longer, ms, shows a channel in trouble before it has failed. */
const SLOW_MS = 2_000;

/**
 * Lets a channel in trouble have few tries under way; further ones fail at once, and are tried again later. It is in
 * trouble while a try takes long, and from one that was not delivered until another one is. Otherwise it may have any
 * number under way, since many runs may ask at once.
 */
export function withFewInTrouble(name: string, channel: MessageChannel, slowMs = SLOW_MS): MessageChannel {
  /** The oldest first. */
  const underWay = new Set<{ readonly beganAt: number }>();
  let hasFailed = false;
  return {
    ...defined({ hasButtons: channel.hasButtons }),
    send: async (message) => {
      const { size } = underWay;
      const [oldest] = underWay;
      const isSlow = oldest !== undefined && performance.now() - oldest.beganAt > slowMs;
      if (size >= MOST_AT_ONCE && (isSlow || hasFailed))
        throw undelivered(name, `is in trouble, and has ${size} other messages under way at this worker`);
      const own = { beganAt: performance.now() };
      underWay.add(own);
      try {
        const sent = await channel.send(message);
        hasFailed = false;
        return sent;
      } catch (error) {
        // A message that is refused says nothing of others.
        if (!(error instanceof CountersignError && error.code === 'MESSAGE_REFUSED')) hasFailed = true;
        throw error;
      } finally {
        underWay.delete(own);
      }
    },
  };
}

export interface SendParts {
  readonly channels: Readonly<Record<string, MessageChannel>>;
  readonly page: NotifyConfig['page'];
  /** Returns a copy of a JSON value without secrets. */
  readonly scrub: (value: unknown) => unknown;
  readonly tell: TellMessage;
  readonly readRequests: ReadRequests;
  /** By Temporal's word. */
  readonly scheduler: () => Pick<Scheduler, 'namespace' | 'attempt' | 'workflowId' | 'workflowType' | 'runId'>;
}

/** Adds to a digest, and begins it if there is none. @param repeated true if it may have been added before */
export type HandOver = (digest: Digest, gathered: Gathered, repeated: boolean) => Promise<void>;

export interface MessageParts extends SendParts {
  /** Channel → seconds for which it gathers, if it does. */
  readonly gather: Readonly<Record<string, number | undefined>>;
  readonly handOver: HandOver;
}

export function createSendMessage(parts: MessageParts): (input: MessageInput) => Promise<MessageSent> {
  return async (input) => {
    const { key, again, channel, event, run, to, requests, more, thread } = input;
    const { attempt, workflowId, workflowType } = parts.scheduler();
    if (workflowType !== RUN_WORKFLOW || workflowId !== run.workflowId)
      throw refusedBy(channel, 'tells of a run for that run alone');
    const repeated = again === true || attempt > 1;
    const seconds = ownValue(parts.gather, channel);
    const gathered = seconds === undefined ? undefined : gatheredOf(input, seconds);
    if (gathered !== undefined) {
      await parts.handOver(...gathered, repeated).catch((error: unknown) => {
        parts.tell({ channel, event, result: 'failed' });
        throw undelivered(channel, `could not be handed what to gather (${faultName(error)})`);
      });
      return {};
    }
    return await deliver(parts, event, {
      id: `msg_${key}`,
      single: { event, run },
      channel,
      to,
      requests: requests.map((request) => ({ ...request, event, run })),
      ...defined({ more, thread }),
      repeated,
    });
  };
}

/** Returns what a digest is to gather of a message; undefined if pointers alone do not say it. */
function gatheredOf(
  { key, channel, event, run, to, requests, more }: MessageInput,
  seconds: number,
): readonly [Digest, Gathered] | undefined {
  const calls = requests.map(({ callId, generation }) => ({ callId, generation }));
  const digest = Digest.safeParse({ tenant: run.initiator.tenant, channel, to, seconds });
  const gathered = Gathered.safeParse({ key, run: run.workflowId, event, calls });
  return digest.success && gathered.success && more === undefined ? [digest.data, gathered.data] : undefined;
}

/**
 * Sends a message whose requests have no links yet.
 * @param event as metrics count it
 */
export async function deliver(
  { channels, page, scrub, tell, readRequests }: SendParts,
  event: MessageEvent | 'digest',
  message: Message,
): Promise<MessageSent> {
  const { channel } = message;
  try {
    const sender = ownValue(channels, channel);
    // Policy is read again while a worker runs, and channels are not: another worker may know it.
    if (sender === undefined) throw undelivered(channel, 'is not configured on this worker');
    const read = new Map<string, ReturnType<ReadRequests>>();
    const askedBy = async ({ workflowId }: ToldRun): ReturnType<ReadRequests> => {
      const reading = read.get(workflowId) ?? readRequests(workflowId).catch(() => []);
      read.set(workflowId, reading);
      return await reading;
    };
    const requests: LinkedRequest[] = [];
    for (const { run, event: what, ...told } of message.requests) {
      // Sound: scrubbing changes the text of strings, and nothing else.
      const clean = scrub(told) as ToldRequest;
      const isAnswerable = sender.hasButtons === true && what !== 'closed';
      const answerable = isAnswerable ? answerableOf(clean, await askedBy(run)) : undefined;
      const url = page === undefined ? undefined : linkTo(page, run, clean.callId);
      requests.push({ ...clean, run, event: what, ...defined({ url, answerable }) });
    }
    const sent = await sender.send({ ...message, requests });
    tell({ channel, event, result: 'sent' });
    return sent;
  } catch (error) {
    tell({ channel, event, result: 'failed' });
    throw error;
  }
}

/** Returns what an answer must bind; undefined unless the run still asks for consent to what the message shows. */
function answerableOf(shown: ToldRequest, asked: readonly ApprovalRequest[]): Answerable | undefined {
  const request = asked.find(({ callId, generation }) => callId === shown.callId && generation === shown.generation);
  if (request === undefined || request.status !== 'open' || request.about !== undefined) return undefined;
  const { server, tool, digest, runId } = request;
  // An approver may have edited the arguments since.
  if (argumentsLine(shownArguments(request)) !== shown.arguments || server !== shown.server || tool !== shown.tool)
    return undefined;
  if (requestDigest({ ...request, target: request }) !== digest) return undefined;
  const warnings = warningsOf(request);
  const isWhole = jsonLine(request.arguments).text === shown.arguments;
  return { digest, runId, isWhole, ...(warnings.length === 0 ? {} : { warnings }) };
}

/** Why a call is asked again is in every message. */
function warningsOf({ duplicateOf, edited }: ApprovalRequest): readonly string[] {
  return [
    ...(duplicateOf === undefined
      ? []
      : [`the same tool with the same arguments was asked for in call ${duplicateOf}`]),
    ...(edited === undefined ? [] : [`${edited.by} changed the arguments; the model proposed others`]),
  ];
}

function linkTo(page: string, { namespace, workflowId }: ToldRun, callId: string): string {
  const values = { namespace, run: workflowId, call: callId };
  // Sound: the pattern names these keys alone.
  return page.replaceAll(/\{(namespace|run|call)\}/g, (_, name: string) =>
    encodeURIComponent(values[name as keyof typeof values]),
  );
}
