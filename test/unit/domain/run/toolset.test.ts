/** Names under which a model sees tools: lossless for any legal tool name (S3.5, D-4). */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { isListing } from '../../../../contracts/names.ts';
import type { SignedAuthorization } from '../../../../contracts/schemas/request.ts';
import { authorize, MOST_AUTHORIZATIONS } from '../../../../domain/request/authorization.ts';
import { admitAnswer } from '../../../../domain/request/pause.ts';
import { ended } from '../../../../domain/request/transitions.ts';
import { heard } from '../../../../domain/run/message-queue.ts';
import {
  assembleToolset,
  listed,
  listingAsked,
  listingId,
  type OfferedTool,
  type ToolsetPart,
  whyEnded,
} from '../../../../domain/run/toolset.ts';
import { callOf, type CallState, grantsFor, type Run, startRun } from '../../../../domain/state/run.ts';
import { serverName, toolName } from '../../../support/builders/arbitraries.ts';
import { say, shown } from '../../../support/builders/decision.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';
import { serverTools, toolDefinition } from '../../../support/builders/tool.ts';
import { forAll } from '../../../support/for-all.ts';

/** What every provider accepts. */
const LEGAL = /^[a-zA-Z0-9_-]{1,64}$/;

const parts: fc.Arbitrary<ToolsetPart[]> = fc
  .uniqueArray(fc.tuple(serverName, fc.uniqueArray(toolName, { minLength: 1, maxLength: 6 })), {
    selector: ([server]) => server,
    minLength: 1,
    maxLength: 5,
  })
  .map((servers) => servers.map(([server, tools]) => ({ tools: serverTools(server, tools) })));

function offer(...servers: readonly (readonly [string, readonly string[]])[]): OfferedTool[] {
  return assembleToolset(servers.map(([server, tools]) => ({ tools: serverTools(server, tools) })));
}

function namesOf(tools: readonly OfferedTool[]): string[] {
  return tools.map(({ modelName }) => modelName);
}

describe('model names', () => {
  test('every tool has one that is legal for every provider and means no other tool', () => {
    forAll(parts, (given) => {
      const offered = assembleToolset(given);
      expect(offered).toHaveLength(given.flatMap(({ tools }) => tools.tools).length);
      for (const name of namesOf(offered)) expect(name).toMatch(LEGAL);
      expect(new Set(namesOf(offered)).size).toBe(offered.length);
    });
  });

  test('S3.5: a name leads back to the server and the original tool name, unchanged', () => {
    forAll(parts, (given) => {
      const originals = given.flatMap(({ tools }) =>
        tools.tools.map(({ definition }) => `${tools.server} ${definition.name}`),
      );
      const reached = assembleToolset(given).map(({ server, definition }) => `${server} ${definition.name}`);
      expect(reached.toSorted()).toEqual(originals.toSorted());
    });
  });

  test('S4.3: do not depend on the order of servers or of their tools', () => {
    forAll(parts, (given) => {
      const turned = given.toReversed().map(({ tools }) => ({ tools: { ...tools, tools: tools.tools.toReversed() } }));
      const name = ({ server, definition, modelName }: OfferedTool): string =>
        `${server} ${definition.name} ${modelName}`;
      expect(assembleToolset(turned).map(name).toSorted()).toEqual(assembleToolset(given).map(name).toSorted());
    });
  });

  const legal = (tool: string) => namesOf(offer(['files', [tool]]))[0] ?? '';

  test.each([
    ['plain, so that people and models can read it', 'read_file', /^files__read_file$/],
    ['plain with a dash', 'write-file', /^files__write-file$/],
    ['plain with exactly 64 characters', 'x'.repeat(57), /^files__x{57}$/],
    ['hashed with 65', 'x'.repeat(58), /^(?=.{64}$)files__x+_[0-9a-f]+$/],
    ['hashed with dots', 'issue.get', /^files__issue_get_[0-9a-f]+$/],
    ['hashed with slashes', 'issues/get', /^files__issues_get_[0-9a-f]+$/],
    ['hashed with 128 characters', 'x'.repeat(128), /^files__x+_[0-9a-f]+$/],
    ['hashed with characters of any script', 'öffnen', /^files___ffnen_[0-9a-f]+$/],
    ['hashed with a zero byte', 'a\u0000b', /^files__a_b_[0-9a-f]+$/],
  ])('a name is %s', (_what, tool, shape) => {
    expect(legal(tool)).toMatch(shape);
    expect(legal(tool)).toMatch(LEGAL);
  });

  test('S4.3: the same tool on two servers is two tools', () => {
    expect(namesOf(offer(['one', ['delete']], ['two', ['delete']]))).toEqual(['one__delete', 'two__delete']);
  });

  test('S4.3: pairs that would read alike are both hashed: neither takes the plain name from the other', () => {
    const names = namesOf(offer(['a', ['b__c']], ['a__b', ['c']]));
    for (const name of names) expect(name).toMatch(/^a__b__c_[0-9a-f]+$/);
    expect(new Set(names).size).toBe(2);
  });

  test.each([
    ['look-alikes that differ in one illegal character', ['issue.get', 'issue/get', 'issue get', 'issue_get']],
    // Found by search: the first 40 bits of the sha256 of both are equal, and so is all that is legal in them.
    ['names made to meet in a short hash', ['x//:/./../:/.', 'x/:/./+/:+:/.']],
    ['halves of surrogate pairs, which have no UTF-8,', ['\ud800', '\ud801']],
  ])('%s stay apart', (_what, names) => {
    expect(new Set(namesOf(offer(['files', names]))).size).toBe(names.length);
  });

  test('a tool that is named like the hashed name of another cannot take it', () => {
    const [victim = ''] = namesOf(offer(['files', ['issue.get']]));
    const imitation = victim.slice('files__'.length);
    const offered = offer(['files', ['issue.get', imitation]]);
    expect(offered[0]?.modelName).toBe(victim);
    expect(offered[1]?.modelName).not.toBe(victim);
  });
});

describe('offered tools', () => {
  test('a list of allowed tools keeps the others out, by their original names', () => {
    const tools = serverTools('files', ['issue.get', 'issue_get', 'delete']);
    const offered = assembleToolset([{ tools, allowedTools: ['issue.get'] }]);
    expect(offered.map(({ definition }) => definition.name)).toEqual(['issue.get']);
    expect(assembleToolset([{ tools, allowedTools: [] }])).toEqual([]);
  });

  test('know how many refreshes the catalog of their server had made, where it stands in one', () => {
    const tools = serverTools('files', ['list']);
    expect(assembleToolset([{ tools: { ...tools, catalogRefreshes: 3 } }])).toEqual([
      expect.objectContaining({ catalogRefreshes: 3 }),
    ]);
    expect(assembleToolset([{ tools }])[0]).not.toHaveProperty('catalogRefreshes');
  });

  test('a tool that is kept out does not change the name of another', () => {
    const withheld = assembleToolset([
      { tools: serverTools('a', ['b__c']), allowedTools: ['b__c'] },
      { tools: serverTools('a__b', ['c']), allowedTools: [] },
    ]);
    expect(namesOf(withheld)).toEqual(['a__b__c']);
  });

  test('a tool that a server lists twice is offered once, as first listed', () => {
    const first = { definition: toolDefinition({ name: 'pay', description: 'first' }), hash: '1'.repeat(64) };
    const second = { definition: toolDefinition({ name: 'pay', description: 'second' }), hash: '2'.repeat(64) };
    const offered = assembleToolset([{ tools: { ...serverTools('bank', []), tools: [first, second] } }]);
    expect(offered).toEqual([expect.objectContaining({ modelName: 'bank__pay', hash: first.hash })]);
  });

  test('each carries what a dispatch must hold it to: server, URL, definition and its hash', () => {
    const tools = serverTools('files', ['read_file']);
    expect(assembleToolset([{ tools }])).toEqual([
      { modelName: 'files__read_file', server: 'files', serverUrl: tools.serverUrl, ...tools.tools[0] },
    ]);
  });
});

/** A list of tools that waits for a grant: a request like every other, before there is any call (INV-S2, INV-G2, INV-D3). */
describe('listing', () => {
  const CALL = 't0.c1';
  const server = { name: 'files', url: 'https://files.example/mcp' };
  const need = { reason: 'GRANT_MISSING', message: 'needs an authorization.', wants: 'grant' } as const;
  const pausing = { at: START, approvers: initiatorRule('ann'), deadlineSeconds: 60 };

  function asked(run: Run): Run | undefined {
    return listingAsked(run, { server, index: 1 }, need, pausing, runIds())?.run;
  }

  function waiting(run = startRun(START)): Run {
    const next = asked(run);
    if (next === undefined) throw new Error('nobody is asked');
    return next;
  }

  function grant(run: Run, decisionId = 'a-1'): SignedAuthorization {
    const digest = shown(run, CALL).digest;
    const said = { decisionId, callId: CALL, digest, runId: runIds().runId, approver: { id: 'ann', groups: [] } };
    return { kind: 'grant', grant: { server: 'files', ref: 'fresh' }, ...said };
  }

  const given = (run: Run, decisionId?: string): Run => {
    const answer = grant(run, decisionId);
    const admission = admitAnswer(run, 'authorization', answer, runIds(), START);
    if (admission.kind !== 'accept' || admission.state.status !== 'waiting-for-answer')
      throw new Error(`not taken: ${JSON.stringify(admission)}`);
    return authorize(run, admission.state, answer, START).run;
  };

  test('is asked of whose grant it is, under an id that no call of a turn has', () => {
    const change = listingAsked(startRun(START), { server, index: 1 }, need, pausing, runIds());
    expect(change?.run.calls).toMatchObject([
      {
        status: 'waiting-for-answer',
        call: { callId: CALL, name: 'tools/list', arguments: {} },
        judgement: { target: { server: 'files', serverUrl: server.url, tool: 'tools/list' } },
        request: {
          generation: 1,
          about: { kind: 'authorization', wants: 'grant', round: 1 },
          deadline: START + 60_000,
        },
      },
    ]);
    expect(change?.facts).toMatchObject([{ kind: 'request.opened', callId: CALL, about: { kind: 'authorization' } }]);
    expect(listingId(1)).toBe(CALL);
    expect(['t0.c0', 't1.c0', 't10.c0', 'unknown'].map(isListing)).toEqual([true, false, false, false]);
  });

  test('goes on with the grant that was given, which is for the calls of the run, too', () => {
    const run = given(waiting());
    expect(callOf(run, CALL)).toMatchObject({ status: 'cleared', authorized: [{ answer: { decisionId: 'a-1' } }] });
    expect(grantsFor(run, 'files')).toMatchObject([{ answer: { grant: { ref: 'fresh' } } }]);
    expect(grantsFor(run, 'other')).toEqual([]);
  });

  test('is asked so often and not more', () => {
    let run = startRun(START);
    for (let round = 1; round <= MOST_AUTHORIZATIONS; round += 1) {
      run = waiting(run);
      expect(callOf(run, CALL)).toMatchObject({ request: { generation: round, about: { round } } });
      run = given(run, `a-${round}`);
    }
    expect(asked(run)).toBeUndefined();
  });

  test('is gone when all lists are there; calls of turns stay', () => {
    const both = { ...askingRun(), calls: [...askingRun().calls, ...waiting().calls] };
    expect(listed(both).calls.map(({ call }) => call.callId)).toEqual(['t1.c0']);
  });

  test('waits on where a message interrupts: no model could read it (B-15)', () => {
    const run = heard(waiting(), say({ interrupt: true })).run;
    expect(callOf(run, CALL)?.status).toBe('waiting-for-answer');
    expect(run.queue).toHaveLength(1);
  });

  test('that nobody helped on says what was in the way, and how it ended', () => {
    const why = (outcome: Parameters<typeof ended>[2]) => {
      const state = callOf(ended(waiting(), CALL, outcome).run, CALL);
      if (state?.status !== 'settled') throw new Error('it waits');
      return whyEnded(state);
    };
    const { expired, cancelled } = outcomes();
    expect(why(expired)).toEqual({
      reason: 'GRANT_MISSING',
      message: expect.stringMatching(/^needs an authorization\. Nobody gave another one by 20/),
    });
    expect(why({ kind: 'rejected', by: 'ann', reason: 'not today' })).toEqual({
      reason: 'GRANT_MISSING',
      message: 'needs an authorization. ann gives no other: not today',
    });
    expect(why(cancelled)).toEqual({ reason: 'GRANT_MISSING', message: 'needs an authorization.' });
    // Sound: it has ended.
    const consent = callOf(ended(askingRun(), 't1.c0', expired).run, 't1.c0') as Extract<
      CallState,
      { status: 'settled' }
    >;
    expect(whyEnded(consent)).toMatchObject({ reason: 'INTERNAL' });
  });
});
