/** Checks that an id used for one message never answers another one, however that one is sent. */
import { createHash } from 'node:crypto';
import { expect } from '@jest/globals';
import canonicalize from 'canonicalize';
import type { CatalogHandle, RunHandle } from '../../../client/index.ts';
import { codedFailureIn } from '../../../contracts/failure.ts';
import { until } from '../until.ts';
import type { World } from '../world/world.ts';

export interface Message {
  readonly [field: string]: unknown;
}

/** An update and its message. */
export type Sent = readonly [update: string, message: Message];

/** Computes the update id as the guide says, without our own code. */
export function idByTheGuide(update: string, { signature: _, ...message }: Message): string {
  const payload = createHash('sha256')
    .update(canonicalize(message) ?? '')
    .digest('hex');
  const id = message['decisionId'] ?? message['messageId'] ?? message['requestId'] ?? message['standing'];
  return `${update}/${String(id)}/${payload.slice(0, 16)}`;
}

/** Returns the answer, or the code of the refusal and the field that it names. */
async function answerOf(send: () => Promise<unknown>): Promise<unknown> {
  try {
    return await send();
  } catch (error) {
    const coded = codedFailureIn(error);
    if (coded === undefined) throw error;
    return [coded.code, coded.facts['path']];
  }
}

/** Sends straight to Temporal, under the id that the guide prescribes. */
export const sentPlain = ({ client }: World, workflowId: string, [update, message]: Sent): Promise<unknown> =>
  answerOf(() =>
    client.workflow
      .getHandle(workflowId)
      .executeUpdate<unknown, [Message]>(update, { args: [message], updateId: idByTheGuide(update, message) }),
  );

/** Sends with the library's method of the same name. */
export function sentByLibrary(handle: RunHandle | CatalogHandle, [update, message]: Sent): Promise<unknown> {
  // Sound: each update has its method, which checks the message itself.
  const methods = handle as unknown as Readonly<Record<string, (message: Message) => Promise<unknown>>>;
  return answerOf(async () => await methods[update]?.call(handle, message));
}

/**
 * Checks that the first message is accepted and always gets the same answer, and that every other one is refused in
 * both ways.
 */
export async function expectOneMeaning(
  world: World,
  handle: RunHandle | CatalogHandle,
  first: Sent,
  others: Readonly<Record<string, Sent>>,
  refusal: readonly [code: string, path: string] = ['DECISION_INVALID', 'decisionId'],
): Promise<void> {
  const workflowId = 'runId' in handle ? handle.runId : handle.workflowId;
  const ack = await sentByLibrary(handle, first);
  expect(ack).not.toBeInstanceOf(Array);
  const answers = async () => {
    const sent: readonly (readonly [string, Sent])[] = [['again', first], ...Object.entries(others)];
    const each = sent.map(async ([what, message]) => {
      return [what, [await sentByLibrary(handle, message), await sentPlain(world, workflowId, message)]] as const;
    });
    return new Map(await Promise.all(each));
  };
  const refused = Object.keys(others).map((what) => [what, [refusal, refusal]] as const);
  const expected = new Map<string, readonly unknown[]>([['again', [ack, ack]], ...refused]);
  expect(await answers()).toEqual(expected);
  // The next execution does not confuse the messages either.
  const before = await runIdOf(world, workflowId);
  await world.client.workflow.getHandle(workflowId).signal('nudge');
  await until(async () => (await runIdOf(world, workflowId)) !== before, {
    what: 'the next execution',
  });
  expect(await answers()).toEqual(expected);
}

async function runIdOf({ client }: World, workflowId: string): Promise<string> {
  return (await client.workflow.getHandle(workflowId).describe()).runId;
}
