/** A read whose input was forged: dispatch asks the run itself what was linked to, and believes nothing else (INV-G1). */
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { createToolsetLoader } from '../../activities/catalog/reader.ts';
import { createLiveTools } from '../../activities/discovery/access.ts';
import { createCallTool } from '../../activities/gate/call-tool.ts';
import { createDiscoverTools } from '../../activities/gate/discover-tools.ts';
import { ServerLimits } from '../../activities/limits/server-limits.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { Conditions } from '../../activities/policy/condition.ts';
import { createMessageReader } from '../../activities/run/read-transcript.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import type { Discovery } from '../../contracts/schemas/tool.ts';
import type { DiscoverInput, DispatchInput, DispatchResult, TurnedAway } from '../../contracts/wire/tools.ts';
import { UNASKED_RUN } from '../support/activities/dispatch.ts';
import { loopbackEgress } from '../support/egress.ts';
import { END, links, read, useLinkScene } from '../support/scenes/links.ts';
import { executions, scheduledInputs } from '../support/world/run-record.ts';

const { server, world } = useLinkScene();
/** As the run scheduled it: a read at `more`, of a link that stands in a stored segment by then. */
let genuine: DispatchInput;
let discovery: DiscoverInput;

beforeAll(async () => {
  const run = await world.start(
    [
      { calls: [links('more', 'doc://1'), links('docs', 'doc://2')] },
      { calls: [links('more', 'doc://3')] },
      { calls: [read('more', 'doc://1')] },
      END,
    ],
    { servers: [{ name: 'docs' }, { name: 'more' }], limits: { turnsPerExecution: 1 } },
    { runId: 'linked' },
  );
  await run.result();
  expect((await executions(world, run.runId)).length).toBeGreaterThan(2);
  const inputs = await scheduledInputs(world, run.runId);
  // Sound: recorded by our own workflow.
  genuine = inputs.get(ACTIVITIES.callTool) as unknown as DispatchInput;
  const first = await world.start([END], { servers: [{ name: 'queued' }] }, { runId: 'discovered' });
  await first.result();
  // Sound: as above.
  discovery = (await scheduledInputs(world, 'discovered')).get(ACTIVITIES.discoverTools) as unknown as DiscoverInput;
}, 120_000);

beforeEach(() => server.reset());

function environment({ run, runId }: { run: DispatchInput['run']; runId: string }): MockActivityEnvironment {
  const { namespace, workflowId } = run;
  return new MockActivityEnvironment({
    workflowType: 'agentRun',
    workflowNamespace: namespace,
    namespace,
    workflowExecution: { workflowId, runId },
  });
}

const broker = { mint: async () => ({ evidence: { strategy: 'none' as const }, secrets: [] }) };

/** As a worker runs it for the run that is named: with the real store, the real run, the real server. */
async function dispatch(over: Partial<DispatchInput>, config = world.config): Promise<DispatchResult> {
  const { artifacts, client } = world;
  const tools = createMcpToolServer({ artifacts, egress: loopbackEgress() });
  return await environment(genuine).run(
    createCallTool({
      config,
      conditions: new Conditions(),
      loadToolset: createToolsetLoader(artifacts),
      broker,
      server: tools,
      limits: new ServerLimits({ configured: new Map(), tell: () => {} }),
      liveTools: createLiveTools({ config, broker, server: tools }),
      readCatalog: async () => undefined,
      ...UNASKED_RUN,
      readMessage: createMessageReader(artifacts, client),
    }),
    { ...genuine, ...over },
  );
}

test('control: as it was scheduled it is sent, the link found in a stored segment', async () => {
  expect(genuine).toMatchObject({ arguments: { uri: 'doc://1' }, link: { at: 2 }, server: { name: 'more' } });
  expect(await dispatch({})).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
  expect(server.reads.map(({ uri }) => uri)).toEqual(['doc://1']);
});

describe('refused, and nothing is sent', () => {
  test.each<[string, Partial<DispatchInput>]>([
    ['a foreign URI', { arguments: { uri: 'file:///etc/passwd' } }],
    ['what another server has linked to, in the very same message', { arguments: { uri: 'doc://2' } }],
    ['what is linked to elsewhere', { arguments: { uri: 'doc://3' } }],
    ['another message', { link: { at: 0 } }],
    ['a message that is none', { link: { at: 1_000 } }],
    ['no message', { link: { at: -1 } }],
  ])('%s', async (_, over) => {
    expect(await dispatch(over)).toMatchObject({ kind: 'refused', code: 'RESOURCE_NOT_LINKED' });
    expect(server.reads).toEqual([]);
  });

  test('no link', async () => {
    // Sound: what stands in no JSON is absent.
    const over = { link: undefined } as unknown as Partial<DispatchInput>;
    expect(await dispatch(over)).toMatchObject({ kind: 'refused', code: 'RESOURCE_NOT_LINKED' });
    expect(server.reads).toEqual([]);
  });

  test('a server whose links this worker does not read any more', async () => {
    const { more } = world.config.servers;
    if (more === undefined) throw new Error('more is configured');
    const servers = { ...world.config.servers, more: { ...more, resourceLinks: 'keep' as const } };
    const answer = await dispatch({}, { ...world.config, servers });
    expect(answer).toMatchObject({ kind: 'refused', code: 'TOOL_DISABLED' });
    expect(server.reads).toEqual([]);
  });
});

test('whoever asks for no links gets the tools of the server alone', async () => {
  const discover = async (input: DiscoverInput): Promise<Discovery | TurnedAway> => {
    const { artifacts, config } = world;
    const tools = createMcpToolServer({ artifacts, egress: loopbackEgress() });
    const liveTools = { learn: () => undefined };
    const limits = new ServerLimits({ configured: new Map(), tell: () => {} });
    const parts = { config, artifacts, broker, server: tools, limits, liveTools, readCatalog: async () => undefined };
    return await environment({ run: input.run, runId: 'any' }).run(createDiscoverTools(parts), input);
  };
  expect(discovery).toMatchObject({ links: true });
  expect(await discover(discovery)).toMatchObject({ count: 2 });
  const { links: _, ...earlier } = discovery;
  expect(await discover(earlier)).toMatchObject({ count: 1 });
});
