/** Which definition of a tool a request is about, and which one was approved before it. */
import { expect, jest, test } from '@jest/globals';
import { CountersignError } from '../../../contracts/errors.ts';
import type { ToolDefinition } from '../../../contracts/schemas/tool.ts';
import type { SeenDefinitions } from '../../../gateway/catalog/catalogs.ts';
import { Definitions } from '../../../gateway/catalog/definitions.ts';

const definition = (description: string): ToolDefinition => ({ name: 'pay', description, inputSchema: {} });
const [one, two, three] = ['one', 'two', 'three'].map(definition) as [ToolDefinition, ToolDefinition, ToolDefinition];
const hash = (letter: string): string => letter.repeat(64);

interface World {
  readonly pinned?: { readonly definition: ToolDefinition; readonly hash: string } | Error;
  readonly catalog?: SeenDefinitions | Error;
}

function startDefinitions(world: World) {
  const asked = { run: 0, catalog: 0 };
  const definitions = new Definitions(
    {
      // Sound: nothing else of a run is asked for.
      run: () =>
        ({
          tools: async (server: string) => {
            asked.run += 1;
            const { pinned } = world;
            if (pinned instanceof Error) throw pinned;
            return pinned && { server, serverUrl: '', tools: [pinned] };
          },
        }) as never,
    },
    {
      definitionsOf: async () => {
        asked.catalog += 1;
        const { catalog } = world;
        if (catalog instanceof Error) throw catalog;
        return catalog;
      },
    },
  );
  const of = async (definitionHash: string, workflowId = 'run-1') =>
    await definitions.of({ workflowId, tenant: 'acme', server: 'bank', tool: 'pay', definitionHash });
  return { of, asked };
}

const AWAY = new CountersignError('ARTIFACT_MISSING', 'away');
const PINNED = { definition: one, hash: hash('1') };

test.each<readonly [string, World, string, object]>([
  ['the list of the run', { pinned: PINNED }, '1', { definition: one }],
  ['a tool that changed since, kept by nobody', { pinned: PINNED }, '2', { earlier: { definition: one, of: 'run' } }],
  [
    'a tool that changed since, as its catalog has it',
    { pinned: PINNED, catalog: { current: two, hash: hash('2') } },
    '2',
    { definition: two, earlier: { definition: one, of: 'run' } },
  ],
  [
    'another one than an operator acknowledged',
    { pinned: PINNED, catalog: { current: one, hash: hash('1'), acknowledged: three, acknowledgedHash: hash('3') } },
    '1',
    { definition: one, earlier: { definition: three, of: 'catalog' } },
  ],
  [
    'the one that an operator acknowledged',
    { catalog: { current: two, hash: hash('2'), acknowledged: one, acknowledgedHash: hash('1') } },
    '1',
    { definition: one, isAcknowledged: true },
  ],
  ['nothing, where all is away', { pinned: AWAY, catalog: AWAY }, '1', {}],
])('%s', async (_, world, letter, told) => {
  expect(await startDefinitions(world).of(hash(letter))).toEqual(told);
});

test('is read once for all who look, and not again at once where it cannot be read', async () => {
  for (const pinned of [PINNED, AWAY]) {
    const { of, asked } = startDefinitions({ pinned });
    await Promise.all([of(hash('1')), of(hash('1'))]);
    await of(hash('1'));
    expect(asked).toEqual({ run: 1, catalog: 1 });
  }
});

test('lists are kept as far as they have room in memory, where empty objects take more than their text', async () => {
  const large = { ...one, inputSchema: { examples: Array.from({ length: 50_000 }, () => ({})) } };
  const { of, asked } = startDefinitions({ pinned: { definition: large, hash: hash('1') } });
  // Each takes three megabytes, though its text has 150 KB.
  for (let run = 0; run < 20; run += 1) await of(hash('1'), `run-${run}`);
  await of(hash('1'), 'run-19');
  expect(asked.run).toBe(20);
  await of(hash('1'), 'run-0');
  expect(asked.run).toBe(21);
});

test('the list of a run, once read, serves a form that was begun by it while the store is away', async () => {
  jest.useFakeTimers();
  try {
    const world: { pinned: NonNullable<World['pinned']> } = { pinned: PINNED };
    const { of } = startDefinitions(world);
    expect(await of(hash('1'))).toEqual({ definition: one });
    world.pinned = AWAY;
    jest.advanceTimersByTime(60_000);
    expect(await of(hash('1'))).toEqual({ definition: one });
  } finally {
    jest.useRealTimers();
  }
});
