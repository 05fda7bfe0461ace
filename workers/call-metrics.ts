/**
 * Counts how calls ended that this process has made, the tokens that it asked for, the payloads that it could not
 * verify, and the messages to people.
 *
 * 1. Labels are configured names and words of ours: tenants choose nothing in them.
 * 2. What operators are alerted to stands at 0 from the start, so that the first one is seen as a change.
 */
import type { Runtime } from '@temporalio/worker';
import type { TellMessage } from '../activities/notify/send.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../activities/tokens/port.ts';
import { METRICS } from '../contracts/metrics.ts';
import type { ToolActivities } from '../contracts/wire/activities.ts';
import type { PollResult } from '../contracts/wire/legacy-2025.ts';
import type { DispatchResult } from '../contracts/wire/tools.ts';
import { codedFailureIn } from '../contracts/failure.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { MessageEvent } from '../contracts/schemas/notify.ts';
import { canonicalServerUrl } from '../domain/text/urls.ts';
import { limitedServers, UNLISTED } from './limit-metrics.ts';

type Meter = Pick<Runtime, 'metricMeter'>;

type Calls = Pick<ToolActivities, 'callTool' | 'resumeCall' | 'pollTask'>;

/** Wraps the activities of calls, so that each end of a call is counted. */
export function countingCalls<Activities extends Calls>(
  activities: Activities,
  config: Config,
  { metricMeter }: Meter,
): Activities {
  const ended = metricMeter.createCounter(METRICS.calls, '', 'Calls that ended in this process, by outcome.');
  const names = limitedServers(config);
  for (const server of [...[...names.values()].map(({ name }) => name), UNLISTED])
    ended.add(0, { server, outcome: 'unknown' });
  const count = ({ server }: { readonly server: { readonly url: string } }, result: CallEnd): void => {
    // Another worker asks for the answer of a call that left a place.
    if (result.kind !== 'ended' || ('resume' in result && result.resume !== undefined)) return;
    const name = names.get(canonicalServerUrl(server.url))?.name ?? UNLISTED;
    ended.add(1, { server: name, outcome: result.outcome.kind });
  };
  const counted =
    <Input extends { readonly server: { readonly url: string } }, Result extends CallEnd>(
      activity: (input: Input) => Promise<Result>,
    ) =>
    async (input: Input): Promise<Result> => {
      const result = await activity(input);
      count(input, result);
      return result;
    };
  return {
    ...activities,
    callTool: counted(activities.callTool),
    resumeCall: counted(activities.resumeCall),
    pollTask: counted(activities.pollTask),
  };
}

type CallEnd = DispatchResult | PollResult;

/** Wraps the broker, so that each token, and each failure to get one, is counted. */
export function countingTokens(
  broker: TokenBroker,
  { servers }: Pick<Config, 'servers'>,
  { metricMeter }: Meter,
): TokenBroker {
  const asked = metricMeter.createCounter(METRICS.tokens, '', 'Tokens that were asked for, by result.');
  for (const server of [...Object.keys(servers), UNLISTED])
    for (const result of ['minted', 'TOKEN_REFUSED', 'TOKEN_UNAVAILABLE']) asked.add(0, { server, result });
  return {
    mint: async (request: TokenRequest): Promise<MintedToken> => {
      const server = Object.hasOwn(servers, request.server) ? request.server : UNLISTED;
      try {
        const token = await broker.mint(request);
        // Some servers take none.
        if (token.accessToken !== undefined) asked.add(1, { server, result: 'minted' });
        return token;
      } catch (error) {
        asked.add(1, { server, result: codedFailureIn(error)?.code ?? 'INTERNAL' });
        throw error;
      }
    },
  };
}

const UNVERIFIED = ['sealed', 'changed', 'unproven', 'unknown-key'] as const;
/**
 * Why a payload was not believed: encrypted by a key that is not here; encrypted, and changed since; with a proof that
 * is not one; with a proof by a key that is not here.
 */
export type Unverified = (typeof UNVERIFIED)[number];

export function tellPayloads({ metricMeter }: Meter): (reason: Unverified) => void {
  const unverified = metricMeter.createCounter(METRICS.unverified, '', 'Payloads that could not be verified.');
  for (const reason of UNVERIFIED) unverified.add(0, { reason });
  return (reason) => unverified.add(1, { reason });
}

/** Counts each try of a message, by its channel. */
export function tellMessages({ metricMeter }: Meter, channels: readonly string[]): TellMessage {
  const tries = metricMeter.createCounter(METRICS.messages, '', 'Messages to people, each try.');
  for (const channel of channels)
    for (const event of [...MessageEvent.options, 'digest'] as const)
      for (const result of ['sent', 'failed']) tries.add(0, { channel, event, result });
  return ({ channel, event, result }) => tries.add(1, { channel, event, result });
}
