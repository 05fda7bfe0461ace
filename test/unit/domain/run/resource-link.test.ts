/** Which resources a run may read: what results of it have linked to, from the same server (INV-G1, INV-G4, INV-D2). */
import { describe, expect, test } from '@jest/globals';
import { callIdOf, READ_RESOURCE } from '../../../../contracts/names.ts';
import type { Outcome, ResultPart } from '../../../../contracts/schemas/call.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { closeTurn, judgedAll } from '../../../../domain/run/turn.ts';
import { ended } from '../../../../domain/request/transitions.ts';
import {
  linkTo,
  MOST_LINK_BYTES,
  MOST_LINKS,
  namesLink,
  readsLinks,
  withLinks,
  withoutUnlinked,
} from '../../../../domain/run/resource-link.ts';
import { proposed, type Run, startRun } from '../../../../domain/state/run.ts';
import { proposedCall } from '../../../support/builders/call.ts';
import { allowVerdict, askVerdict, denyVerdict, judgement } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { POLICY_VERSION, runIds, START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';

const link = (uri: string): ResultPart => ({ type: 'resource_link', uri, name: 'a' });
const linking = (...uris: string[]): Outcome => ({ kind: 'succeeded', result: { content: uris.map(link) } });

/** One turn, of which each call ended so on its server, and closed. */
function afterTurn(run: Run, ends: readonly (readonly [server: string, outcome: Outcome])[], at: number): Run {
  const calls = ends.map((_, index) => proposedCall({ callId: callIdOf(run.turn + 1, index) }));
  const judgements = calls.map(({ callId }, index) =>
    judgement({ callId, target: toolTarget({ server: ends[index]?.[0] ?? '' }), verdict: allowVerdict() }),
  );
  let next = judgedAll(
    proposed(run, calls, { inputTokens: 0, outputTokens: 0 }).run,
    judgements,
    POLICY_VERSION,
    runIds(),
    START,
  ).run;
  for (const [index, [, outcome]] of ends.entries()) next = ended(next, callIdOf(next.turn, index), outcome).run;
  return closeTurn(withLinks(next, ['docs', 'files'], at));
}

const found = (run: Run, server: string, uri: string) => linkTo(run, server, { uri });

describe('what results link to', () => {
  test('can be read from the server that named it, and from no other', () => {
    const run = afterTurn(startRun(START), [['docs', linking('doc://1', 'doc://2')]], 2);
    expect(found(run, 'docs', 'doc://1')).toEqual({ server: 'docs', uri: 'doc://1', at: 2 });
    expect(found(run, 'docs', 'doc://2')).toMatchObject({ at: 2 });
    expect(found(run, 'files', 'doc://1')).toBeUndefined();
    expect(found(run, 'docs', 'doc://3')).toBeUndefined();
    expect(found(run, 'docs', 'doc://1/')).toBeUndefined();
    expect(found(startRun(START), 'docs', 'doc://1')).toBeUndefined();
  });

  test('also where the tool says that it has failed; not what a person recorded, nor what was not executed', () => {
    const content = [link('doc://failed')];
    const failed = { kind: 'failed', code: 'TOOL_FAILED', message: 'no', executed: true, result: { content } } as const;
    const run = afterTurn(startRun(START), [['docs', failed]], 2);
    expect(found(run, 'docs', 'doc://failed')).toBeDefined();
    const { result: _, ...bare } = failed;
    for (const outcome of [{ ...failed, recordedBy: 'ann' }, bare, ...Object.values(outcomes())])
      expect(afterTurn(startRun(START), [['docs', outcome]], 2)).not.toHaveProperty('links');
  });

  test('is nothing else that a result holds', () => {
    const content: ResultPart[] = [
      { type: 'text', text: 'doc://1' },
      { type: 'resource', uri: 'doc://1', text: 'doc://1' },
      link(''),
      link(`doc://${'x'.repeat(2_048)}`),
    ];
    const run = afterTurn(startRun(START), [['docs', { kind: 'succeeded', result: { content } }]], 2);
    expect(run).not.toHaveProperty('links');
  });

  test('is not kept of servers whose links nobody may read', () => {
    expect(afterTurn(startRun(START), [['other', linking('doc://1')]], 2)).not.toHaveProperty('links');
  });

  test('of a call that meant no tool is nothing', () => {
    const calls = [proposedCall()];
    const { target: _, ...unknown } = judgement({ verdict: denyVerdict({ code: 'TOOL_UNKNOWN' }) });
    const run = judgedAll(
      proposed(startRun(START), calls, { inputTokens: 0, outputTokens: 0 }).run,
      [unknown],
      POLICY_VERSION,
      runIds(),
      START,
    ).run;
    expect(withLinks(run, ['docs', 'files'], 2)).toBe(run);
  });

  test('INV-D2: stays bounded in number; what is named again stays longest, at its newest place', () => {
    let run = startRun(START);
    for (let turn = 0; turn < MOST_LINKS; turn += 1) run = afterTurn(run, [['docs', linking(`doc://${turn}`)]], turn);
    expect(run.links).toHaveLength(MOST_LINKS);
    run = afterTurn(run, [['docs', linking('doc://0', 'doc://new')]], 999);
    expect(run.links).toHaveLength(MOST_LINKS);
    expect(found(run, 'docs', 'doc://1')).toBeUndefined();
    expect(found(run, 'docs', 'doc://0')).toMatchObject({ at: 999 });
    expect(found(run, 'docs', 'doc://2')).toMatchObject({ at: 2 });
  });

  test('INV-D2: and in bytes', () => {
    const long = (n: number) => `doc://${n}/${'ä'.repeat(900)}`;
    let run = startRun(START);
    for (let turn = 0; turn < 30; turn += 1) run = afterTurn(run, [['docs', linking(long(turn))]], turn);
    const kept = run.links ?? [];
    const bytes = kept.reduce((sum, { uri }) => sum + new TextEncoder().encode(uri).length, 0);
    expect(bytes).toBeLessThanOrEqual(MOST_LINK_BYTES);
    expect(kept.length).toBeGreaterThan(10);
    expect(found(run, 'docs', long(29))).toBeDefined();
    expect(found(run, 'docs', long(0))).toBeUndefined();
  });
});

describe('the verdict on a read', () => {
  const run = afterTurn(startRun(START), [['docs', linking('doc://1')]], 2);
  const target = toolTarget({ server: 'docs', tool: READ_RESOURCE });
  const read = (uri: JsonObject[string], over: Parameters<typeof judgement>[0] = {}) =>
    withoutUnlinked(run, { arguments: { uri } }, judgement({ target, verdict: allowVerdict(), ...over }));

  test('stays where a result has linked to it', () => {
    expect(read('doc://1').verdict).toEqual(allowVerdict());
    expect(read('doc://1', { verdict: askVerdict() }).verdict).toEqual(askVerdict());
  });

  test.each([
    ['made up', 'doc://2', {}],
    ['of another server', 'doc://1', { target: { ...target, server: 'files' } }],
    ['no text', { '0': 'doc://1' }, {}],
  ] as const)('is a denial where the URI is %s, also where policy would ask (INV-G4)', (_, uri, over) => {
    for (const verdict of [allowVerdict(), askVerdict()]) {
      const judged = read(uri, { ...over, verdict, description: 'shown', annotations: { readOnlyHint: true } });
      expect(judged).toMatchObject({
        verdict: { kind: 'deny', code: 'RESOURCE_NOT_LINKED', rules: ['default/not-linked'] },
      });
      expect(judged).not.toHaveProperty('description');
      // What a model made up is not repeated to it.
      expect(JSON.stringify(judged.verdict)).not.toContain('doc://');
    }
  });

  test('is a denial for a call that nobody proposed', () => {
    const judged = withoutUnlinked(run, undefined, judgement({ target, verdict: allowVerdict() }));
    expect(judged.verdict).toMatchObject({ code: 'RESOURCE_NOT_LINKED' });
  });

  test('of policy is not softened or replaced', () => {
    expect(read('doc://2', { verdict: denyVerdict() }).verdict).toEqual(denyVerdict());
  });

  test('on every other tool stays as it is', () => {
    const other = judgement({ target: toolTarget(), verdict: allowVerdict() });
    expect(withoutUnlinked(run, { arguments: { uri: 'doc://2' } }, other)).toBe(other);
    const { target: _, ...unknown } = judgement({ verdict: denyVerdict() });
    expect(withoutUnlinked(run, undefined, unknown)).toBe(unknown);
  });
});

describe('a message names a link', () => {
  const serverOf = (name: string) => ({ docs__search: 'docs', files__list: 'files' })[name];
  const message = (name: string, outcome: Outcome): Message => ({
    role: 'tool',
    results: [{ callId: 't1.c0', providerCallId: 'p', name, outcome }],
  });
  const named = message('docs__search', linking('doc://1'));

  test('where the result of a tool of that server has it', () => {
    expect(namesLink(named, { server: 'docs', uri: 'doc://1' }, serverOf)).toBe(true);
  });

  test.each([
    ['of another server', named, { server: 'files', uri: 'doc://1' }],
    ['with another URI', named, { server: 'docs', uri: 'doc://2' }],
    ['that is no text', named, { server: 'docs', uri: undefined }],
    ['of a tool that nobody offered', message('docs__gone', linking('doc://1')), { server: 'docs', uri: 'doc://1' }],
    [
      'that somebody said',
      { role: 'user', text: '[resource a: doc://1]' } as const,
      { server: 'docs', uri: 'doc://1' },
    ],
    ['where there is no message', undefined, { server: 'docs', uri: 'doc://1' }],
  ])('not one %s', (_, at, wanted) => {
    expect(namesLink(at, wanted, serverOf)).toBe(false);
  });
});

test('links are read where the operator says so of that server, and nowhere else', () => {
  const servers = { docs: { resourceLinks: 'read' }, files: { resourceLinks: 'keep' } } as const;
  expect(['docs', 'files', 'constructor', 'gone'].filter((server) => readsLinks(servers, server))).toEqual(['docs']);
});
