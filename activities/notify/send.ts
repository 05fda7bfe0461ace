/**
 * The activity that sends one message through one channel. It runs on workers of role `runs`, which alone have the
 * secrets of channels.
 *
 * 1. A message is scrubbed of every secret that this worker knows before a channel sees it (INV-S1).
 * 2. Its links are made of the configured address alone.
 * 3. Only a run has it sent, and only about itself.
 * 4. A message that can be answered binds what the run asks when it is sent. What has changed meanwhile cannot be
 *    answered by it, and a run that cannot be read costs the buttons, never the message.
 */
import { RUN_WORKFLOW } from '../../contracts/names.ts';
import type { NotifyConfig } from '../../contracts/schemas/channels.ts';
import { defined } from '../../contracts/defined.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { shownArguments } from '../../domain/policy/redaction.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { argumentsLine, jsonLine } from '../../domain/text/shown-json.ts';
import type { MessageEvent } from '../../contracts/schemas/notify.ts';
import type { MessageInput, MessageSent, ToldRequest } from '../../contracts/wire/notify.ts';
import type { Scheduler } from '../kit/activity.ts';
import { ownValue } from '../kit/json.ts';
import { type Answerable, type LinkedRequest, type MessageChannel, refusedBy, undelivered } from './port.ts';

/** How a try ended. */
export type TellMessage = (told: {
  readonly channel: string;
  readonly event: MessageEvent;
  readonly result: 'sent' | 'failed';
}) => void;

export interface SendParts {
  readonly channels: Readonly<Record<string, MessageChannel>>;
  readonly page: NotifyConfig['page'];
  /** Returns a copy of a JSON value without secrets. */
  readonly scrub: (value: unknown) => unknown;
  readonly tell: TellMessage;
  /** Reads the requests of a run. */
  readonly readRequests: (workflowId: string) => Promise<readonly ApprovalRequest[]>;
  /** Who asks, by Temporal's word. */
  readonly scheduler: () => Pick<Scheduler, 'attempt' | 'workflowId' | 'workflowType'>;
}

export function createSendMessage({
  channels,
  page,
  scrub,
  tell,
  readRequests,
  scheduler,
}: SendParts): (input: MessageInput) => Promise<MessageSent> {
  return async ({ key, again, ...input }) => {
    const { channel, event, run } = input;
    const { attempt, workflowId, workflowType } = scheduler();
    if (workflowType !== RUN_WORKFLOW || workflowId !== run.workflowId)
      throw refusedBy(channel, 'tells of a run for that run alone');
    // Sound: scrubbing changes the text of strings, and nothing else.
    const clean = scrub(input.requests) as readonly ToldRequest[];
    const linked = clean.map((request): LinkedRequest => {
      const url = page === undefined ? undefined : linkTo(page, run, request.callId);
      return url === undefined ? request : { ...request, url };
    });
    try {
      const sender = ownValue(channels, channel);
      // Policy is read again while a worker runs, and channels are not: another worker may know it.
      if (sender === undefined) throw undelivered(channel, 'is not configured on this worker');
      const isAnswerable = sender.hasButtons === true && event !== 'closed';
      const asked = isAnswerable ? await readRequests(workflowId).catch(() => []) : [];
      const requests = linked.map((request) => ({
        ...request,
        ...defined({ answerable: answerableOf(request, asked) }),
      }));
      const sent = await sender.send({
        ...input,
        requests,
        id: `msg_${key}`,
        repeated: again === true || attempt > 1,
      });
      tell({ channel, event, result: 'sent' });
      return sent;
    } catch (error) {
      tell({ channel, event, result: 'failed' });
      throw error;
    }
  };
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
  return { digest, runId, isWhole: jsonLine(request.arguments).text === shown.arguments };
}

function linkTo(page: string, { namespace, workflowId }: MessageInput['run'], callId: string): string {
  const values = { namespace, run: workflowId, call: callId };
  // Sound: the pattern names these keys alone.
  return page.replaceAll(/\{(namespace|run|call)\}/g, (_, name: string) =>
    encodeURIComponent(values[name as keyof typeof values]),
  );
}
