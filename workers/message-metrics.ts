/** Counts the messages to people, so that a channel that fails is seen. */
import type { Runtime } from '@temporalio/worker';
import type { TellMessage } from '../activities/notify/send.ts';
import { METRICS } from '../contracts/names.ts';

export function tellMessages({ metricMeter }: Pick<Runtime, 'metricMeter'>): TellMessage {
  const tries = metricMeter.createCounter(METRICS.messages, '', 'Messages to people, each try.');
  return ({ channel, event, result }) => tries.add(1, { channel, event, result });
}
