/** What a result links to is read on demand, by a tool of ours that goes through the same gate (INV-G1, INV-S1, INV-S2, INV-G4). */
import { describe, expect, test } from '@jest/globals';
import { assertIntact } from '../../client/index.ts';
import { allowed, changed, connected } from '../support/scenes/catalogs.ts';
import { answerTo, question } from '../support/scenes/input.ts';
import { END, ends, links, read, tokenFor, useLinkScene } from '../support/scenes/links.ts';
import { factsOf, outcomesAtEnd, refusalOf, scheduledInputs, transcript } from '../support/world/run-record.ts';
import { decisionOn, openRequests, requestFor, rolled } from '../support/world/world.ts';

const LONG_MS = 120_000;
const { server, world, issuer } = useLinkScene();

/** A run whose own policy says this of reads at `docs`. */
const saying = (action: 'ask' | 'deny') => ({
  servers: [{ name: 'docs' }],
  policy: {
    approvers: { ids: ['ann'], may: ['edit' as const] },
    servers: { docs: { default: 'allow' as const, tools: { 'resources:read': action } } },
  },
});
/** What the one part of this result has in the artifact store. */
async function bytesIn(end: object | undefined): Promise<string> {
  const { result } = end as { result: { content: [{ artifact: Parameters<typeof world.artifacts.get>[0] }] } };
  return Buffer.from(await world.artifacts.get(result.content[0].artifact)).toString();
}
const content = (...parts: readonly object[]) => ({ kind: 'succeeded', result: { content: parts } });
const notLinked = { kind: 'denied', code: 'RESOURCE_NOT_LINKED' };

test(
  'server-everything (legacy): the model gets links, and reads text and bytes',
  async () => {
    const [blob, text] = ['demo://resource/dynamic/blob/1', 'demo://resource/dynamic/text/2'];
    const run = await world.start(
      [
        { calls: [{ tool: 'all/get-resource-links', arguments: { count: 2 } }] },
        { calls: [read('all', blob), read('all', text)] },
        END,
      ],
      { servers: [{ name: 'all' }] },
    );
    await run.result();
    const [, bytes, words] = await ends(world, run);
    expect(words).toMatchObject(
      content({ type: 'resource', uri: text, mimeType: 'text/plain', text: expect.stringContaining('plaintext') }),
    );
    expect(bytes).toMatchObject(content({ type: 'resource', uri: blob, artifact: { contentType: 'text/plain' } }));
    expect(await bytesIn(bytes)).toContain('base64 blob');
    const ledger = await run.ledger();
    assertIntact(ledger, run.runId);
    expect(factsOf(ledger, 'verdict', 't2.c0')).toMatchObject([
      { verdict: 'allow', server: 'all', tool: 'resources:read', rules: ['organisation/strategy/never'] },
    ]);
    expect(factsOf(ledger, 'dispatched')).toHaveLength(3);
  },
  LONG_MS,
);

describe('a server of 2026-07-28', () => {
  test('INV-S2, INV-S1: a read has a token of its own, with the scope of reads, which comes back nowhere', async () => {
    const uris = ['doc://text', 'doc://blob'];
    const run = await world.start(
      [{ calls: [links('docs', ...uris)] }, { calls: uris.map((uri) => read('docs', uri)) }, END],
      { servers: [{ name: 'docs' }] },
    );
    await run.result();
    const keyOf = (callId: string): unknown =>
      expect.stringMatching(new RegExp(`^${run.runId}/${callId.replace('.', String.raw`\.`)}/[0-9a-f]{16}$`));
    expect(server.reads.toSorted((one, other) => one.uri.localeCompare(other.uri))).toEqual([
      { uri: 'doc://blob', token: `Bearer ${tokenFor('read')}`, key: keyOf('t2.c1') },
      { uri: 'doc://text', token: `Bearer ${tokenFor('read')}`, key: keyOf('t2.c0') },
    ]);
    const [, words, bytes] = await ends(world, run);
    expect(words).toMatchObject(content({ text: 'words of doc://text for Bearer [redacted]' }));
    expect(await bytesIn(bytes)).toMatch(/^\0bytes of Bearer \*+$/);
    expect(JSON.stringify(await transcript(world, run))).not.toContain(tokenFor('read'));
    const asked = issuer.seen.map(({ form }) => form.get('scope'));
    expect(asked.filter((scope) => scope === 'read')).toHaveLength(2);
  });

  test('a read that is asked about waits, is shown with its URI, and leaves once it is approved', async () => {
    const steps = [{ calls: [links('docs', 'doc://1')] }, { calls: [read('docs', 'doc://1')] }, END];
    const run = await world.start(steps, saying('ask'));
    const [request] = await openRequests(run);
    expect(request).toMatchObject({
      server: 'docs',
      tool: 'resources:read',
      arguments: { uri: 'doc://1' },
      description: expect.stringContaining('linked to'),
      annotations: { readOnlyHint: true },
    });
    expect(server.reads).toEqual([]);
    await run.decide(decisionOn(request, 'ann'));
    await run.result();
    expect(server.reads.map(({ uri }) => uri)).toEqual(['doc://1']);
  });

  test('INV-G1: one that policy denies is not sent', async () => {
    const steps = [{ calls: [links('docs', 'doc://1')] }, { calls: [read('docs', 'doc://1')] }, END];
    const run = await world.start(steps, saying('deny'));
    await run.result();
    expect((await ends(world, run))[1]).toMatchObject({ kind: 'denied', code: 'POLICY_DENIED' });
    expect(server.reads).toEqual([]);
  });

  test('a resource that is gone has failed, not executed, with the words of the server', async () => {
    const steps = [{ calls: [links('docs', 'doc://gone')] }, { calls: [read('docs', 'doc://gone')] }, END];
    const run = await world.start(steps, { servers: [{ name: 'docs' }] });
    await run.result();
    expect((await ends(world, run))[1]).toMatchObject({
      kind: 'failed',
      executed: false,
      code: 'RESOURCE_UNKNOWN',
      message: expect.stringMatching(/has no such resource.*doc:\/\/gone/),
    });
    expect(server.reads).toHaveLength(1);
  });

  test('a server that asks for input before it gives a resource is answered by people', async () => {
    const steps = [{ calls: [links('docs', 'doc://form')] }, { calls: [read('docs', 'doc://form')] }, END];
    const run = await world.start(steps, { servers: [{ name: 'docs' }] });
    const shown = await question(run);
    expect(shown).toMatchObject({ callId: 't2.c0', about: { requests: { confirm: { message: 'Open the safe?' } } } });
    await run.provideInput(answerTo(shown, { confirm: { action: 'accept', content: { sure: true } } }));
    await run.result();
    expect((await ends(world, run))[1]).toMatchObject(
      content({ text: expect.stringContaining('words of doc://form') }),
    );
    expect(server.reads.map(({ uri }) => uri)).toEqual(['doc://form', 'doc://form']);
    expect(new Set(server.reads.map(({ key }) => key)).size).toBe(2);
  });
});

describe('INV-G4: what no result of that server has linked to is denied, whatever policy says', () => {
  test('before there is a link, in the turn of the link, made up, or of another server', async () => {
    const run = await world.start(
      [
        { calls: [read('docs', 'doc://1')] },
        { calls: [links('docs', 'doc://1'), read('docs', 'doc://1')] },
        { calls: [read('docs', 'file:///etc/passwd'), read('docs', 'doc://1 '), read('more', 'doc://1')] },
        { calls: [read('docs', 'doc://1')] },
        END,
      ],
      { servers: [{ name: 'docs' }, { name: 'more' }] },
    );
    await run.result();
    const told = await ends(world, run);
    expect(told).toMatchObject([
      notLinked,
      { kind: 'succeeded' },
      notLinked,
      notLinked,
      notLinked,
      notLinked,
      { kind: 'succeeded' },
    ]);
    expect(JSON.stringify(told[3])).not.toContain('passwd');
    expect(server.reads.map(({ uri }) => uri)).toEqual(['doc://1']);
    expect(factsOf(await run.ledger(), 'verdict', 't3.c0')).toMatchObject([
      { verdict: 'deny', rules: ['default/not-linked'] },
    ]);
  });

  test('arguments that are more or less than a URI', async () => {
    const odd = [{ uri: 7 }, {}, { uri: 'doc://1', method: 'POST' }, { uri: '' }];
    const run = await world.start(
      [
        { calls: [links('docs', 'doc://1')] },
        { calls: odd.map((args) => ({ ...read('docs', ''), arguments: args as { uri: string } })) },
        END,
      ],
      { servers: [{ name: 'docs' }] },
    );
    await run.result();
    expect((await ends(world, run)).slice(1)).toMatchObject(odd.map(() => ({ code: 'ARGUMENTS_INVALID' })));
    expect(server.reads).toEqual([]);
  });

  test('nobody edits a read into one of something else', async () => {
    const steps = [{ calls: [links('docs', 'doc://1', 'doc://2')] }, { calls: [read('docs', 'doc://1')] }, END];
    const run = await world.start(steps, saying('ask'));
    const [request] = await openRequests(run);
    const edited = (uri: string) => ({ ...decisionOn(request, 'ann'), kind: 'approve' as const, arguments: { uri } });
    expect(await refusalOf(run.decide(edited('doc://3')))).toMatchObject({ code: 'RESOURCE_NOT_LINKED' });
    await run.decide(edited('doc://2'));
    await run.result();
    expect(server.reads.map(({ uri }) => uri)).toEqual(['doc://2']);
  });

  test('a link that was read to the end of a long result counts, one that was cut from it does not', async () => {
    const uris = Array.from({ length: 100 }, (_, n) => `doc://${n}/${'x'.repeat(100)}`);
    const last = uris.at(-1) ?? '';
    const run = await world.start(
      [{ calls: [links('docs', ...uris)] }, { calls: [read('docs', uris[0]), read('docs', last)] }, END],
      { servers: [{ name: 'docs' }], limits: { resultBytes: 4_096 } },
    );
    await run.result();
    expect((await ends(world, run)).slice(1)).toMatchObject([{ kind: 'succeeded' }, notLinked]);
  });
});

test('INV-D3: links outlive continue-as-new, with a read that waits and with one that is proposed later', async () => {
  const run = await world.start(
    [
      { calls: [links('docs', 'doc://1', 'doc://2')] },
      { calls: [read('docs', 'doc://1')] },
      { calls: [links('docs', 'doc://3')] },
      { calls: [read('docs', 'doc://2'), read('docs', 'doc://4')] },
      END,
    ],
    { ...saying('ask'), limits: { turnsPerExecution: 1 } },
  );
  await openRequests(run);
  await rolled(world, run.runId);
  await run.decide(decisionOn(await requestFor(run, 't2.c0'), 'ann'));
  await run.decide(decisionOn(await requestFor(run, 't4.c0'), 'ann'));
  expect(await outcomesAtEnd(run)).toMatchObject({ 't2.c0': 'succeeded', 't4.c0': 'succeeded', 't4.c1': 'denied' });
  expect(server.reads.map(({ uri }) => uri)).toEqual(['doc://1', 'doc://2']);
  expect(factsOf(await run.ledger(), 'run.rolled').length).toBeGreaterThan(1);
});

describe('what is offered', () => {
  test('no server lists a tool in the place of ours, and the ledger says what was left out', async () => {
    const run = await world.start([{ calls: [links('docs', 'doc://1')] }, { calls: [read('docs', 'doc://1')] }, END], {
      servers: [{ name: 'docs' }],
    });
    await run.result();
    expect(factsOf(await run.ledger(), 'tools.discovered')).toMatchObject([
      { count: 2, refused: [expect.stringMatching(/^resources:read: its name has characters/)] },
    ]);
    expect(server.calls).toEqual(['link']);
    const { name } = (await scheduledInputs(world, run.runId)).get('callTool') ?? {};
    expect(name).toMatch(/^docs__resources_read_[0-9a-f]{16}$/);
  });

  test('a catalog has it as any tool: disabled it is not offered, allowed it reads', async () => {
    const shelf = world.countersign.catalog('more', 'shelf');
    const { entries } = await connected(shelf, server.url);
    expect(entries.map(({ name }) => name).toSorted()).toEqual(['link', 'resources:read']);
    await allowed(shelf, 'link', 'resources:read');
    const steps = [{ calls: [links('more', 'doc://1')] }, { calls: [read('more', 'doc://1')] }, END];
    const over = { servers: [{ name: 'more' }], initiator: { id: 'ann', tenant: 'shelf' } };
    for (const [enabled, end] of [
      [false, { kind: 'denied', code: 'TOOL_UNKNOWN' }],
      [true, { kind: 'succeeded' }],
    ] as const) {
      await changed(shelf, { tool: 'resources:read', enabled });
      await world.restartWorkers();
      const run = await world.start(steps, over);
      await run.result();
      expect(await ends(world, run)).toMatchObject([{ kind: 'succeeded' }, end]);
    }
    expect(server.reads).toHaveLength(1);
  });

  test('nothing, where the operator does not say so; nor where the run leaves it out', async () => {
    const calls = [read('kept', 'doc://1'), read('docs', 'doc://1')];
    const servers = [{ name: 'kept' }, { name: 'docs', allowedTools: ['link'] }];
    const run = await world.start([{ calls: [links('kept', 'doc://1'), links('docs', 'doc://1')] }, { calls }, END], {
      servers,
    });
    await run.result();
    expect((await ends(world, run)).slice(2)).toMatchObject(calls.map(() => ({ code: 'TOOL_UNKNOWN' })));
    expect(server.reads).toEqual([]);
  });
});
