/** Counts the messages to people, so that a channel that fails is seen. */
import type { Runtime } from '@temporalio/worker';
import type { TellMessage } from '../activities/notify/send.ts';
import { METRICS } from '../contracts/metrics.ts';
import { MessageEvent } from '../contracts/schemas/notify.ts';

/** @param channels stand at 0 from the start, so that the first failure is seen as a change */
export function tellMessages({ metricMeter }: Pick<Runtime, 'metricMeter'>, channels: readonly string[]): TellMessage {
  const tries = metricMeter.createCounter(METRICS.messages, '', 'Messages to people, each try.');
  for (const channel of channels)
    for (const event of MessageEvent.options)
      for (const result of ['sent', 'failed']) tries.add(0, { channel, event, result });
  return ({ channel, event, result }) => tries.add(1, { channel, event, result });
}
