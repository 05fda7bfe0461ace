/** What the activity `judge` resolves, for as many calls as a turn may hold. */
import { describe, expect, test } from '@jest/globals';
import { createJudge } from '../../../../activities/policy/judge.ts';
import { defined } from '../../../../contracts/defined.ts';
import { callIdOf } from '../../../../contracts/names.ts';
import type { CatalogSnapshot } from '../../../../contracts/schemas/catalog.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { Policy } from '../../../../contracts/schemas/policy.ts';
import { MOST_CALLS_PER_TURN } from '../../../../contracts/schemas/run-spec.ts';
import type { JudgeInput } from '../../../../contracts/wire/run.ts';
import { READ_RESOURCE_TOOL } from '../../../../domain/run/resource-link.ts';
import type { OfferedTool } from '../../../../domain/run/toolset.ts';
import { catalogSnapshot } from '../../../support/builders/catalog.ts';

const TOOL: OfferedTool = {
  modelName: 'files__read_file',
  server: 'files',
  serverUrl: 'https://files.test/mcp',
  definition: { name: 'read_file', inputSchema: { type: 'object', required: ['path'] } },
  hash: 'b'.repeat(64),
};

const STORED = { sha256: 'e'.repeat(64), bytes: 2, contentType: 'application/json' };

function trusting({ server, serverUrl }: OfferedTool): CatalogSnapshot {
  const connection = { url: serverUrl, trusted: true };
  return catalogSnapshot([], { tenant: 'default', server, connection, newTools: 'strategy' });
}

/** Makes a judge of runs that are offered this tool, without a catalog unless one is given. */
function judgeBy(config: Config, tool: OfferedTool = TOOL, catalog?: CatalogSnapshot): ReturnType<typeof createJudge> {
  return createJudge(
    config,
    async () => [tool],
    async () => catalog,
  );
}

const judge = judgeBy(Config.parse({}));

function asking(...names: readonly string[]): JudgeInput {
  return {
    run: {
      namespace: 'default',
      workflowId: 'run-1',
      initiator: { id: 'ann', groups: [], tenant: 'default' },
      specHash: 'c'.repeat(64),
    },
    toolset: [],
    runPolicy: undefined,
    calls: names.map((name, index) => ({
      callId: callIdOf(1, index),
      providerCallId: `p${index}`,
      name,
      arguments: { path: 'a' },
    })),
  };
}

describe('the judge', () => {
  test('denies what is not offered, with near names', async () => {
    const { judgements } = await judge(asking('files__read_fil'));
    expect(judgements).toMatchObject([
      { verdict: { kind: 'deny', code: 'TOOL_UNKNOWN', message: expect.stringContaining('files__read_file') } },
    ]);
  });

  test('tells a hosted tool that was called as a function where it is, and a function that was called as a hosted tool', async () => {
    const said = async (tool: OfferedTool, approvalRequestId?: string) => {
      const own = judgeBy(Config.parse({}), tool);
      const input = asking(TOOL.modelName);
      const calls = input.calls.map((call) => ({ ...call, ...defined({ approvalRequestId }) }));
      return (await own({ ...input, calls })).judgements[0];
    };
    const hosted = { ...TOOL, hosted: { model: 'gpt' } };
    expect(await said(hosted)).toMatchObject({
      repeatable: false,
      verdict: {
        kind: 'deny',
        code: 'TOOL_UNKNOWN',
        message:
          'files__read_file is no function here: it is tool read_file of MCP server files. Call it as the tool of that server.',
      },
    });
    expect(await said(TOOL, 'mcpr_1')).toMatchObject({
      verdict: { kind: 'deny', code: 'TOOL_UNKNOWN', message: expect.stringContaining('Call the function.') },
    });
    expect(await said(hosted, 'mcpr_1')).toMatchObject({ verdict: { kind: 'ask' } });
    expect(await said(TOOL)).toMatchObject({ verdict: { kind: 'ask' } });
  });

  test('INV-D2: judges no more calls than a turn may hold: the run denies the others by limit', async () => {
    const { judgements } = await judge(asking(...Array.from({ length: 100 }, () => TOOL.modelName)));
    expect(judgements.map(({ callId }) => callId)).toEqual(
      Array.from({ length: MOST_CALLS_PER_TURN }, (_, index) => callIdOf(1, index)),
    );
    expect(MOST_CALLS_PER_TURN).toBe(64);
  });
});

describe('INV-X1: a read of a linked resource', () => {
  const ours: OfferedTool = { ...TOOL, modelName: 'files__read', definition: READ_RESOURCE_TOOL };
  const url = 'https://files.test/mcp';
  const judged = async (file: object) => {
    const config = Config.parse({ policy: { strategy: 'annotations' }, servers: { files: { url, ...file } } });
    const input = asking('files__read');
    const calls = input.calls.map((call) => ({ ...call, arguments: { uri: 'doc://1' } }));
    const { judgements } = await judgeBy(config, ours)({ ...input, calls });
    return judgements[0];
  };

  test('may be repeated by the word of the operator who offers it, and of nobody else', async () => {
    expect(await judged({ resourceLinks: 'read' })).toMatchObject({ repeatable: true });
    expect(await judged({ repeatable: [READ_RESOURCE_TOOL.name] })).toMatchObject({ repeatable: false });
  });

  test('is exempt by its hint as any tool is: where the operator trusts the server', async () => {
    expect(await judged({ resourceLinks: 'read' })).toMatchObject({ verdict: { kind: 'ask' } });
    expect(await judged({ resourceLinks: 'read', trusted: true })).toMatchObject({ verdict: { kind: 'allow' } });
  });
});

test('a tool whose newer definition cannot be found lends its old schema to no other run', async () => {
  const moved = { ...TOOL, serverUrl: 'https://new.test/mcp', hash: 'f'.repeat(64) };
  const after: OfferedTool = {
    ...moved,
    definition: { name: 'read_file', inputSchema: { type: 'object', required: ['file'] } },
  };
  const definition = { hash: after.hash, refresh: 2 };
  const seen = '2026-01-01T00:00:00.000Z';
  const setting = { enabled: true, requiresApproval: false, denied: false };
  const catalog: CatalogSnapshot = {
    ...trusting(after),
    listings: { 2: STORED },
    entries: [{ name: 'read_file', status: 'available', definition, setting, firstSeen: seen, lastSeen: seen }],
  };
  const own = createJudge(
    Config.parse({}),
    // The run of before has another list than the catalog, whose server is at another address by now.
    async ([ref]) => (ref?.tools === STORED ? [after] : [{ ...TOOL, catalogRefreshes: 1 }]),
    async () => catalog,
  );
  const calls = asking(TOOL.modelName).calls.map((call) => ({ ...call, arguments: { file: 'a' } }));
  const judged = async (tools: typeof STORED) =>
    (await own({ ...asking(), calls, toolset: [{ server: 'files', tools }] })).judgements[0];
  expect(await judged({ ...STORED, sha256: 'd'.repeat(64) })).toMatchObject({ verdict: { kind: 'deny' } });
  expect(await judged(STORED)).toMatchObject({ verdict: { kind: 'ask' } });
});

describe('conditions', () => {
  const policy = {
    strategy: 'never' as const,
    rules: [
      { id: 'third', when: 'earlier["files/read_file"].total >= 2', then: 'ask' as const },
      { id: 'etc', when: 'args.path.startsWith("/etc")', then: 'deny' as const },
    ],
  };
  const judging = judgeBy(Config.parse({ policy }));
  const names = [TOOL.modelName, TOOL.modelName, TOOL.modelName];

  test('B-11: count the calls of the same turn that stand before, so that many at once are as many one by one', async () => {
    const { judgements } = await judging({ ...asking(...names), earlier: { tools: {} } });
    expect(judgements.map(({ verdict }) => verdict.kind)).toEqual(['allow', 'allow', 'ask']);
  });

  test('and those of the turns before; not what is denied', async () => {
    const { calls, ...input } = asking(...names);
    const [first, ...rest] = calls;
    const denied = { ...first, arguments: { path: '/etc/passwd' } } as (typeof calls)[number];
    const earlier = { tools: { 'files/read_file': { succeeded: 1 } } };
    const { judgements } = await judging({ ...input, calls: [denied, ...rest], earlier });
    expect(judgements.map(({ verdict }) => verdict.kind)).toEqual(['deny', 'allow', 'ask']);
  });

  test('INV-G4: a run that counts nothing is asked by what counts', async () => {
    const { judgements } = await judging(asking(TOOL.modelName));
    expect(judgements).toMatchObject([
      { verdict: { kind: 'ask', rules: ['organisation/rules/third (condition failed)'] } },
    ]);
  });

  test('read hints only of a server that the operator trusts', async () => {
    const tool = { ...TOOL, definition: { ...TOOL.definition, annotations: { readOnlyHint: true } } };
    const reads = { rules: [{ id: 'reads', when: 'call.annotations.readOnlyHint', then: 'allow' as const }] };
    const kinds = [true, false].map(async (trusted) => {
      const servers = { files: { url: 'https://files.test/mcp', trusted, credentials: { kind: 'none' as const } } };
      const config = Config.parse({ policy: reads, servers });
      const { judgements } = await judgeBy(config, tool)(asking(tool.modelName));
      return judgements[0]?.verdict.kind;
    });
    expect(await Promise.all(kinds)).toEqual(['allow', 'ask']);
  });

  test('INV-G4: in trust mode signed a catalog makes no server trusted', async () => {
    const tool = { ...TOOL, definition: { ...TOOL.definition, annotations: { readOnlyHint: true } } };
    const kinds = ([{ mode: 'temporal' }, { mode: 'signed', jwks: 'keys.json' }] as const).flatMap((trust) =>
      [true, undefined].map(async (configured) => {
        const files = { url: 'https://files.test/mcp', trusted: true, credentials: { kind: 'none' as const } };
        const config = Config.parse({
          policy: { strategy: 'annotations' },
          servers: configured === undefined ? {} : { files },
          catalog: { newTools: 'strategy' },
          trust,
        });
        const input = { ...asking(tool.modelName), toolset: [{ server: 'files', tools: STORED }] };
        const { judgements } = await judgeBy(config, tool, trusting(tool))(input);
        return judgements[0]?.verdict.kind;
      }),
    );
    expect(await Promise.all(kinds)).toEqual(['allow', 'allow', 'allow', 'ask']);
  });

  test('of two layers, 200 in each, are all answered for the 64 calls of a turn', async () => {
    const many = (prefix: string) => ({
      rules: Array.from({ length: 200 }, (_, index) => ({
        id: `${prefix}${index}`,
        when: `args.path.matches("^/${prefix}/${index}/.*$") && initiator.id == "${index}"`,
        then: 'deny' as const,
      })),
    });
    const config = Config.parse({ policy: { strategy: 'never', ...many('a') } });
    const { judgements } = await judgeBy(config)({
      ...asking(...Array.from({ length: 64 }, () => TOOL.modelName)),
      runPolicy: Policy.parse(many('b')),
    });
    expect(new Set(judgements.map(({ verdict }) => verdict.kind))).toEqual(new Set(['allow']));
  });
});

test('J: broken glass is told loudly, with names and no arguments', async () => {
  const told: unknown[] = [];
  const breakGlass = { reason: 'Pager down.', until: new Date(Date.now() + 60_000).toISOString() };
  const judging = createJudge(
    Config.parse({ policy: { rules: [{ id: 'glass', then: 'allow', breakGlass }] } }),
    async () => [TOOL],
    async () => undefined,
    undefined,
    (message, meta) => told.push([message, meta]),
  );
  const { judgements } = await judging(asking(TOOL.modelName));
  expect(judgements).toMatchObject([{ verdict: { kind: 'allow', breakGlass } }]);
  expect(told).toEqual([
    [
      'Glass is broken: a call that would have been asked is allowed.',
      {
        workflowId: 'run-1',
        callId: 't1.c0',
        server: 'files',
        tool: 'read_file',
        rule: 'organisation/rules/glass',
        ...breakGlass,
      },
    ],
  ]);
});

test('one policy counts for a whole turn, and its version stands beside the verdicts', async () => {
  const config = { ...Config.parse({ policy: { strategy: 'never' } }) };
  const judging = createJudge(
    config,
    async () => {
      // Changes while the turn is judged.
      config.policy = Config.parse({ policy: { halt: { reason: 'Now.' } } }).policy;
      return [TOOL];
    },
    async () => undefined,
  );
  const first = await judging(asking(TOOL.modelName));
  const second = await judging(asking(TOOL.modelName));
  expect([first, second].map(({ judgements }) => judgements[0]?.verdict.kind)).toEqual(['allow', 'deny']);
  expect(first.policyVersion).not.toBe(second.policyVersion);
});

test('a server may be called as a property that every object has', async () => {
  const odd = judgeBy(Config.parse({ policy: { strategy: 'never' } }), { ...TOOL, server: 'constructor' });
  const { judgements } = await odd({ ...asking(TOOL.modelName) });
  expect(judgements).toMatchObject([{ repeatable: false }]);
});

describe('a tool that a server calls read-only', () => {
  const READ: OfferedTool = {
    ...TOOL,
    definition: { name: 'read_file', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
  };
  const files = { url: 'https://files.test/mcp', credentials: { kind: 'none' as const } };

  test.each([
    ['by policy, of a trusted server', { trusted: true }, 'trusted-reads', READ, true],
    ['not of a server that is not trusted', {}, 'trusted-reads', READ, false],
    ['not without the word of policy', { trusted: true }, undefined, READ, false],
    ['not by a policy that names listed tools', { trusted: true }, 'listed', READ, false],
    ['not if the server does not say so', { trusted: true }, 'trusted-reads', TOOL, false],
    ['if the operator lists it, whatever policy says', { repeatable: ['read_file'] }, 'listed', TOOL, true],
  ] as const)('is repeatable %s (INV-X1)', async (_, server, repeatable, tool, expected) => {
    const config = Config.parse({
      servers: { files: { ...files, ...server } },
      policy: { ...defined({ repeatable }) },
    });
    const { judgements } = await judgeBy(config, tool)(asking('files__read_file'));
    expect(judgements).toMatchObject([{ repeatable: expected }]);
  });
});

describe('INV-G4: a call whose arguments nobody can check', () => {
  const policy = Policy.parse({ strategy: 'never', approvers: { ids: ['bob'] } });
  const judged = async (inputSchema: object, over: Policy = policy, args = { path: 'a' }) => {
    const input = asking('files__read_file');
    // Sound: a schema of a test is JSON.
    const tool: OfferedTool = { ...TOOL, definition: { name: 'read_file', inputSchema: inputSchema as never } };
    const config = { ...Config.parse({}), policy: { ...Config.parse({}).policy, ...over } };
    const calls = input.calls.map((call) => ({ ...call, arguments: args }));
    const { judgements } = await judgeBy(config, tool)({ ...input, calls });
    return judgements[0]?.verdict;
  };
  const path = (schema: object) => ({ type: 'object', properties: { path: schema } });

  test.each<[string, object]>([
    ['a broken pattern', path({ pattern: '(' })],
    ['a reference to nowhere', path({ $ref: '#/$defs/nothing' })],
    ['a dialect that is not known', { ...path({}), $schema: 'https://example.com/dialect' }],
  ])('is asked where policy would allow it: %s', async (_what, schema) => {
    expect(await judged(path({ pattern: '^a' }))).toMatchObject({ kind: 'allow' });
    expect(await judged(schema)).toMatchObject({
      kind: 'ask',
      rules: ['default/schema'],
      approvers: { allOf: [{ layer: 'organisation', ids: ['bob'] }] },
      explain: [{ rule: 'default/schema', text: expect.stringContaining("the tool's schema") }],
    });
  });

  test('is denied where policy denies it, and asked of nobody else where policy asks', async () => {
    const hostile = path({ pattern: '(' });
    const rules = (then: 'deny' | 'ask') => ({ rules: [{ id: 'r', then, approvers: { ids: ['cal'], groups: [] } }] });
    expect(await judged(hostile, { ...policy, ...rules('deny') })).toMatchObject({
      kind: 'deny',
      code: 'POLICY_DENIED',
    });
    const asked = await judged(hostile, { ...policy, ...rules('ask') });
    expect(asked).toMatchObject({
      kind: 'ask',
      rules: ['organisation/rules/r'],
      approvers: { allOf: [{ ids: ['cal'] }] },
    });
  });

  test('and what does not fit a pattern is told to the model', async () => {
    expect(await judged(path({ pattern: '^b' }))).toMatchObject({ kind: 'deny', code: 'ARGUMENTS_INVALID' });
  });
});
