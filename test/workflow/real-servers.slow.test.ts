/**
 * Whole runs on servers that no one here wrote, in both protocol eras: what they did is looked at on disk, and what the
 * model was told is what they said (F12, F25, F37, INV-X1).
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { taskOf } from '../support/scenes/tasks.ts';
import { startEverythingServer, startFilesystemServer } from '../support/servers/real-servers.ts';
import { keepZoneKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { factsOf, outcomes, results } from '../support/world/run-record.ts';
import { decisionOn, openRequests, type World, useEngine, useWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

jest.setTimeout(120_000);
const credentials = { kind: 'none' } as const;

const engine = useEngine();

describe.each(['2026-07-28', 'legacy'] as const)('server-filesystem behind mcp-proxy, protocol %s', (protocol) => {
  const files = during(() => startFilesystemServer());
  const world = useWorld(() => ({
    engine,

    config: {
      taskQueue: `files-${protocol}`,
      // Asked for its tools before every call, as a server that changes them would be.
      servers: { files: { url: files.url, credentials, protocol, recheckSeconds: 0 } },
      policy: { approvers: { ids: ['ann'] }, servers: { files: { tools: { read_text_file: 'allow' } } } },
    },
  }));

  test('a run writes and moves a file, each once its call was approved, and reads it back', async () => {
    const [from, to] = [join(files.folder, 'draft.txt'), join(files.folder, 'final.txt')];
    const run = await world.start(
      [
        { calls: [{ tool: 'files/write_file', arguments: { path: from, content: 'räk "1"\n' } }] },
        { calls: [{ tool: 'files/move_file', arguments: { source: from, destination: to } }] },
        { calls: [{ tool: 'files/read_text_file', arguments: { path: to } }] },
        { text: 'done' },
      ],
      {},
      { runId: `moves-${protocol}` },
    );
    for (const [callId, before] of [
      ['t1.c0', []],
      ['t2.c0', ['draft.txt']],
    ] as const) {
      const request = await until(async () => (await openRequests(run)).find((open) => open.callId === callId), {
        what: `the request of ${callId}`,
      });
      expect(await readdir(files.folder)).toEqual(before);
      await run.decide(decisionOn(request, 'ann'));
    }
    await run.result();
    expect(await readdir(files.folder)).toEqual(['final.txt']);
    expect(await readFile(to, 'utf8')).toBe('räk "1"\n');
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'succeeded', 't3.c0': 'succeeded' });
    expect((await results(world, run)).at(-1)?.outcome).toMatchObject({
      result: { content: [{ type: 'text', text: 'räk "1"\n' }], structured: { content: 'räk "1"\n' } },
    });
  });

  test('what is rejected is not done, and what the server forbids has failed with its words', async () => {
    const path = join(files.folder, 'never.txt');
    const write = (at: string) => ({ tool: 'files/write_file', arguments: { path: at, content: 'x' } });
    const calls = [write(path), write('/countersign-outside.txt')];
    const run = await world.start([{ calls }, { text: 'done' }], {}, { runId: `refuses-${protocol}` });
    const [mine, outside] = await openRequests(run, 2);
    await run.decide(decisionOn(mine, 'ann', 'reject'));
    await run.decide(decisionOn(outside, 'ann'));
    await run.result();
    expect(await readdir(files.folder)).not.toContain('never.txt');
    expect((await results(world, run)).map(({ outcome }) => outcome)).toMatchObject([
      { kind: 'rejected' },
      { kind: 'failed', code: 'TOOL_FAILED', executed: true, message: expect.stringContaining('Access denied') },
    ]);
  });
});

describe('server-everything (legacy era, stateful)', () => {
  const everything = during(() => startEverythingServer());
  const world = useWorld(async () => {
    const zone = await keepZoneKey(engine.directory);
    return {
      engine,

      config: {
        taskQueue: 'everything',
        servers: { all: { url: everything.url, credentials, tasks: {} } },
        policy: { strategy: 'never', unknownOutcomes: 'record' },
        grants: zone.grants,
      },
    };
  });

  const ofOne = async (run: RunHandle): Promise<readonly unknown[]> =>
    (await results(world, run)).map(({ outcome }) => outcome);

  test('one turn with every kind of result: each is kept in its place, bytes in the artifact store', async () => {
    const calls = [
      { tool: 'all/echo', arguments: { message: 'hello' } },
      { tool: 'all/get-sum', arguments: { a: 2, b: 3 } },
      { tool: 'all/get-tiny-image' },
      { tool: 'all/get-resource-links', arguments: { count: 2 } },
      { tool: 'all/get-resource-reference', arguments: { resourceType: 'Blob', resourceId: 1 } },
      { tool: 'all/get-structured-content', arguments: { location: 'Chicago' } },
      { tool: 'all/trigger-long-running-operation', arguments: { duration: 0.3, steps: 3 } },
    ];
    const run = await world.start([{ calls }, { text: 'done' }], {}, { runId: 'every-kind' });
    await run.result();
    const content = (...parts: readonly object[]) => ({ kind: 'succeeded', result: { content: parts } });
    const ends = await ofOne(run);
    expect(ends).toMatchObject([
      content({ type: 'text', text: 'Echo: hello' }),
      content({ type: 'text', text: expect.stringContaining('5') }),
      content({ type: 'text' }, { type: 'image', artifact: { contentType: 'image/png' } }, { type: 'text' }),
      content({ type: 'text' }, { type: 'resource_link', uri: expect.any(String) }, { type: 'resource_link' }),
      content({ type: 'text' }, { type: 'resource', artifact: { bytes: expect.any(Number) } }, { type: 'text' }),
      { kind: 'succeeded', result: { structured: { temperature: expect.any(Number) } } },
      content({ type: 'text', text: expect.stringContaining('completed') }),
    ]);
    // Each binary is there, whole.
    for (const { ref, magic } of imagesIn(ends)) {
      expect(
        Buffer.from(await world.artifacts.get(ref))
          .subarray(1, 4)
          .toString(),
      ).toBe(magic);
    }
  });

  test("a tool that can only be called as a task: begun, asked about by timer, and its result is the server's own", async () => {
    const calls = [{ tool: 'all/simulate-research-query', arguments: { topic: 'countersignatures' } }];
    const run = await world.start([{ calls }, { text: 'done' }]);
    const shown = await taskOf(run, ({ message }) => message !== undefined);
    expect(shown).toMatchObject({
      server: 'all',
      tool: 'simulate-research-query',
      message: expect.stringMatching(/\.\.\.$/),
    });
    await run.result();
    expect(await ofOne(run)).toMatchObject([
      {
        kind: 'succeeded',
        result: { content: [{ text: expect.stringContaining('Research Report: countersignatures') }] },
      },
    ]);
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'task.begun')).toHaveLength(1);
    expect(factsOf(ledger, 'dispatched')).toHaveLength(1);
  });

  test('one that is cancelled with its run: the server says that it is', async () => {
    const calls = [{ tool: 'all/simulate-research-query', arguments: { topic: 'stops' } }];
    const run = await world.start([{ calls }, { text: 'done' }]);
    await taskOf(run);
    await run.stop({ by: 'ann', reason: 'enough', inFlight: 'cancel' });
    await run.result();
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'unknown' }]);
  });

  test('tools that ask a person, a model or for roots are not offered: a worker declares nothing that could answer', async () => {
    const asking = [
      'trigger-elicitation-request',
      'trigger-url-elicitation',
      'trigger-sampling-request',
      'get-roots-list',
    ];
    const run = await world.start([{ calls: asking.map((tool) => ({ tool: `all/${tool}` })) }, { text: 'done' }]);
    await run.result();
    expect(await ofOne(run)).toMatchObject(asking.map(() => ({ kind: 'denied', code: 'TOOL_UNKNOWN' })));
  });

  test('a long operation that is not over by its time limit is of unknown outcome, and is not sent again', async () => {
    const calls = [{ tool: 'all/trigger-long-running-operation', arguments: { duration: 3_600, steps: 36_000 } }];
    const run = await world.start([{ calls }, { text: 'done' }], { limits: { callTimeoutSeconds: 2 } });
    await run.result();
    expect(await ofOne(run)).toMatchObject([{ kind: 'unknown', code: 'OUTCOME_UNKNOWN' }]);
    expect(factsOf(await run.ledger(), 'dispatched')).toHaveLength(1);
  });
});

interface Image {
  readonly ref: Parameters<World['artifacts']['get']>[0];
  readonly magic: string;
}

function imagesIn(ends: readonly unknown[]): readonly Image[] {
  const images = ends.flatMap((end) => {
    // Sound: outcomes as the run recorded them; parts without an image are left out.
    const { result } = end as { readonly result?: { readonly content: readonly { readonly type: string }[] } };
    return (result?.content ?? []).flatMap((part) =>
      part.type === 'image' && 'artifact' in part ? [{ ref: part.artifact as Image['ref'], magic: 'PNG' }] : [],
    );
  });
  expect(images.length).toBeGreaterThan(0);
  return images;
}
