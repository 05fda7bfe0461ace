import { expect, test } from '@jest/globals';
import type { MintedToken, TokenBroker, TokenRequest } from '../../../activities/tokens/port.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import { METRICS } from '../../../contracts/metrics.ts';
import type { ToolActivities } from '../../../contracts/wire/activities.ts';
import { Config } from '../../../contracts/schemas/config.ts';
import { countingCalls, countingTokens, tellPayloads } from '../../../workers/metrics.ts';
import { EncryptionCodec } from '../../../workers/codec.ts';
import { ZoneCodec } from '../../../workers/zone.ts';

const config = Config.parse({ servers: { desk: { url: 'https://desk.example/mcp' } } });

/** Adds up what is counted, by metric and labels. */
function metered() {
  const counts = new Map<string, number>();
  const createCounter = (name: string) => ({
    add: (value: number, labels: Readonly<Record<string, string>>) => {
      const key = [name, ...Object.values(labels)].join(' ');
      counts.set(key, (counts.get(key) ?? 0) + value);
    },
  });
  // Sound: all that is used of a runtime stands here.
  const runtime = { metricMeter: { createCounter } } as unknown as Parameters<typeof tellPayloads>[0];
  return { runtime, counts };
}

test('each end of a call counts once, by outcome; servers of tenants have one name', async () => {
  const { runtime, counts } = metered();
  let result: object = {};
  const answer = async () => result as never;
  const { callTool, resumeCall, pollTask } = countingCalls<
    Pick<ToolActivities, 'callTool' | 'resumeCall' | 'pollTask'>
  >({ callTool: answer, resumeCall: answer, pollTask: answer }, config, runtime);
  // Sound: nothing else of an input is read.
  const input = (url: string) => ({ server: { url } }) as never;
  const desk = input('https://desk.example/mcp');
  // Prometheus sees no increase in a counter that begins at 1.
  const atFirst = { [`${METRICS.calls} desk unknown`]: 0, [`${METRICS.calls} (unlisted) unknown`]: 0 };
  expect(Object.fromEntries(counts)).toEqual(atFirst);
  result = { kind: 'ended', outcome: { kind: 'succeeded' } };
  expect(await callTool(desk)).toBe(result);
  await pollTask(desk);
  await callTool(input('https://chosen-by-a-tenant.example/'));
  // Another worker asks for the answer, and counts it then.
  result = { kind: 'ended', outcome: { kind: 'unknown' }, resume: {} };
  await callTool(desk);
  result = { kind: 'ended', outcome: { kind: 'unknown' } };
  await resumeCall(desk);
  result = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE' };
  await callTool(desk);
  expect(Object.fromEntries(counts)).toEqual({
    [`${METRICS.calls} desk succeeded`]: 2,
    [`${METRICS.calls} (unlisted) succeeded`]: 1,
    [`${METRICS.calls} (unlisted) unknown`]: 0,
    [`${METRICS.calls} desk unknown`]: 1,
  });
});

test('tokens count as minted or by the code of their failure, which is thrown on', async () => {
  const { runtime, counts } = metered();
  const answers: (() => Promise<MintedToken>)[] = [];
  const broker: TokenBroker = { mint: async () => await (answers.shift() ?? fail)() };
  const { mint } = countingTokens(broker, config, runtime);
  // Sound: nothing else of a request is read.
  const request = (server: string) => ({ server }) as TokenRequest;
  const refused = new CountersignError('TOKEN_REFUSED', 'refused');
  async function fail(): Promise<never> {
    throw refused;
  }
  const token = { evidence: {}, secrets: [] } as unknown as MintedToken;
  answers.push(async () => ({ ...token, accessToken: 'secret' }));
  answers.push(async () => token);
  await mint(request('desk'));
  await mint(request('desk'));
  await expect(mint(request('desk'))).rejects.toBe(refused);
  await expect(mint(request('chosen-by-a-tenant'))).rejects.toBe(refused);
  expect(Object.fromEntries(counts)).toEqual({
    [`${METRICS.tokens} desk minted`]: 1,
    [`${METRICS.tokens} desk TOKEN_REFUSED`]: 1,
    [`${METRICS.tokens} desk TOKEN_UNAVAILABLE`]: 0,
    [`${METRICS.tokens} (unlisted) minted`]: 0,
    [`${METRICS.tokens} (unlisted) TOKEN_REFUSED`]: 1,
    [`${METRICS.tokens} (unlisted) TOKEN_UNAVAILABLE`]: 0,
  });
});

test('payloads that are sealed, changed or not proven count by the reason; good and plain ones do not', async () => {
  const { runtime, counts } = metered();
  const tell = tellPayloads(runtime);
  const keyOf = (id: string, fill: number) => ({ id, key: Buffer.alloc(32, fill) });
  const plain = { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('1') };
  const [sealed = {}] = await new EncryptionCodec([keyOf('one', 1)]).encode([plain]);
  await new EncryptionCodec([keyOf('one', 1)], tell).decode([plain, sealed]);
  await new EncryptionCodec([keyOf('two', 1)], tell).decode([sealed]);
  await new EncryptionCodec([keyOf('one', 2)], tell).decode([sealed]);
  const zoneKey = (id: string, fill: number) => ({ id, key: Buffer.alloc(32, fill).toString('base64') });
  const claimed = { ...plain, metadata: { ...plain.metadata, 'countersign-claims': Buffer.from('{}') } };
  const [proven = {}] = await new ZoneCodec([zoneKey('one', 1)]).encode([claimed]);
  expect(proven.metadata?.['countersign-mac']).toBeDefined();
  await new ZoneCodec([zoneKey('one', 1)], tell).decode([plain, proven]);
  await new ZoneCodec([zoneKey('one', 2)], tell).decode([proven]);
  await new ZoneCodec([zoneKey('two', 1)], tell).decode([proven]);
  await new ZoneCodec([], tell).decode([proven]);
  expect(Object.fromEntries(counts)).toEqual(
    Object.fromEntries(
      ['sealed', 'changed', 'unproven', 'unknown-key'].map((why) => [`${METRICS.unverified} ${why}`, 1]),
    ),
  );
});
