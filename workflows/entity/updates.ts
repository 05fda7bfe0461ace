/** Registers updates. Each is counted, read, checked and acted on here, so that no handler forgets one of these. */
import type { HandlerUnfinishedPolicy, UpdateDefinition } from '@temporalio/common';
import { setHandler } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { Entity } from './entity.ts';
import { assertReadable } from './unread.ts';

/** One kind of update. */
export interface Taking<Message, Ack> {
  readonly description: string;
  /** Reads the message; throws if it has not the right shape. */
  readonly read: (input: unknown) => Message;
  /** Throws if the message is refused, before it enters history (INV-G2). It changes nothing. */
  readonly check?: (message: Message, input: unknown) => void;
  readonly act: (message: Message, input: unknown) => Ack | Promise<Ack>;
  readonly unfinishedPolicy?: HandlerUnfinishedPolicy;
}

/** One kind of update that says nothing. */
export interface Nudging<Ack> {
  readonly description: string;
  readonly check?: () => void;
  readonly act: () => Ack | Promise<Ack>;
}

export function onUpdate<Message, Ack>(
  entity: Entity,
  update: UpdateDefinition<Ack, [unknown?]>,
  { description, read, check, act, unfinishedPolicy }: Taking<Message, Ack>,
): void {
  const handle = (input?: unknown): Ack | Promise<Ack> => {
    assertReadable(input);
    entity.countUpdate();
    return act(read(input), input);
  };
  const validator = (input?: unknown): void => check?.(read(input), input);
  setHandler(update, handle, { description, validator, ...defined({ unfinishedPolicy }) });
}

/** Registers an update that says nothing: whatever comes along with it is not looked at, and so stops nothing. */
export function onNudge<Ack>(
  entity: Entity,
  update: UpdateDefinition<Ack, [unknown?]>,
  { description, check, act }: Nudging<Ack>,
): void {
  const handle = (_input?: unknown): Ack | Promise<Ack> => {
    entity.countUpdate();
    return act();
  };
  setHandler(update, handle, { description, validator: (_input?: unknown) => check?.() });
}
