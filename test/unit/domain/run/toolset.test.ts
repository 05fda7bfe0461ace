/** Names under which a model sees tools: lossless for any legal tool name (S3.5, D-4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { assembleToolset, type OfferedTool, type ToolsetPart } from '../../../../domain/run/toolset.ts';
import { serverName, toolName } from '../../../support/builders/arbitraries.ts';
import { serverTools, toolDefinition } from '../../../support/builders/tool.ts';

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
    fc.assert(
      fc.property(parts, (given) => {
        const offered = assembleToolset(given);
        expect(offered).toHaveLength(given.flatMap(({ tools }) => tools.tools).length);
        for (const name of namesOf(offered)) expect(name).toMatch(LEGAL);
        expect(new Set(namesOf(offered)).size).toBe(offered.length);
      }),
    );
  });

  test('S3.5: a name leads back to the server and the original tool name, unchanged', () => {
    fc.assert(
      fc.property(parts, (given) => {
        const originals = given.flatMap(({ tools }) =>
          tools.tools.map(({ definition }) => `${tools.server} ${definition.name}`),
        );
        const reached = assembleToolset(given).map(({ server, definition }) => `${server} ${definition.name}`);
        expect(reached.toSorted()).toEqual(originals.toSorted());
      }),
    );
  });

  test('do not depend on the order of servers or of their tools', () => {
    fc.assert(
      fc.property(parts, (given) => {
        const turned = given
          .toReversed()
          .map(({ tools }) => ({ tools: { ...tools, tools: tools.tools.toReversed() } }));
        const name = ({ server, definition, modelName }: OfferedTool): string =>
          `${server} ${definition.name} ${modelName}`;
        expect(assembleToolset(turned).map(name).toSorted()).toEqual(assembleToolset(given).map(name).toSorted());
      }),
    );
  });

  test('a plain name is `server__tool`, so that people and models can read it', () => {
    expect(namesOf(offer(['files', ['read_file', 'write-file']]))).toEqual(['files__read_file', 'files__write-file']);
  });

  test.each([
    ['dots', 'issue.get', /^files__issue_get_[0-9a-f]+$/],
    ['slashes', 'issues/get', /^files__issues_get_[0-9a-f]+$/],
    ['128 characters', 'x'.repeat(128), /^files__x+_[0-9a-f]+$/],
    ['characters of any script', 'öffnen', /^files___ffnen_[0-9a-f]+$/],
    ['a zero byte', 'a\u0000b', /^files__a_b_[0-9a-f]+$/],
  ])('a name with %s is made legal and carries a hash', (_what, tool, shape) => {
    const [name = ''] = namesOf(offer(['files', [tool]]));
    expect(name).toMatch(shape);
    expect(name).toMatch(LEGAL);
  });

  test('exactly 64 characters are still plain, 65 are not', () => {
    const [plain, hashed] = namesOf(offer(['files', ['x'.repeat(57), 'x'.repeat(58)]]));
    expect(plain).toBe(`files__${'x'.repeat(57)}`);
    expect(hashed).toMatch(/^files__x+_[0-9a-f]+$/);
    expect(hashed).toHaveLength(64);
  });

  test('the same tool on two servers is two tools', () => {
    expect(namesOf(offer(['one', ['delete']], ['two', ['delete']]))).toEqual(['one__delete', 'two__delete']);
  });

  test('pairs that would read alike are both hashed: neither takes the plain name from the other', () => {
    const names = namesOf(offer(['a', ['b__c']], ['a__b', ['c']]));
    for (const name of names) expect(name).toMatch(/^a__b__c_[0-9a-f]+$/);
    expect(new Set(names).size).toBe(2);
  });

  test('look-alikes that differ in one illegal character stay apart', () => {
    expect(new Set(namesOf(offer(['files', ['issue.get', 'issue/get', 'issue get', 'issue_get']]))).size).toBe(4);
  });

  test('a tool that is named like the hashed name of another cannot take it', () => {
    const [victim = ''] = namesOf(offer(['files', ['issue.get']]));
    const imitation = victim.slice('files__'.length);
    const offered = offer(['files', ['issue.get', imitation]]);
    expect(offered[0]?.modelName).toBe(victim);
    expect(offered[1]?.modelName).not.toBe(victim);
  });

  test('names made to meet in a short hash stay apart', () => {
    // Found by search: the first 40 bits of the sha256 of both are equal, and so is all that is legal in them.
    const [one, other] = namesOf(offer(['evil', ['x//:/./../:/.', 'x/:/./+/:+:/.']]));
    expect(one).not.toBe(other);
  });

  test('halves of surrogate pairs, which have no UTF-8, stay apart', () => {
    const [one, other] = namesOf(offer(['files', ['\ud800', '\ud801']]));
    expect(one).not.toBe(other);
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
