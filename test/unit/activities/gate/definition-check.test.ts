/** A tool that has changed since it was shown is asked about once, of those whom policy names now (H-7). */
import { expect, test } from '@jest/globals';
import type { ToolNow } from '../../../../activities/catalog/reader.ts';
import { checkDefinition } from '../../../../activities/gate/dispatch-check.ts';
import type { Verdict } from '../../../../contracts/schemas/call.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import type { OfferedTool } from '../../../../domain/run/toolset.ts';

const [SHOWN, NOW] = ['a'.repeat(64), 'b'.repeat(64)];
// Sound: nothing else of it is read.
const input = { target: { definitionHash: SHOWN } } as unknown as DispatchInput;
const offered = (hash: string, description: string): OfferedTool => ({
  modelName: 'bank__pay',
  server: 'bank',
  serverUrl: 'https://bank.example/mcp',
  definition: { name: 'pay', description, inputSchema: { type: 'object' } },
  hash,
});
const tool = (hash: string): ToolNow => ({ tool: offered(hash, 'Pays twice.'), pinned: offered(SHOWN, 'Pays.') });
const approvers = { allOf: [{ layer: 'catalog' as const, ids: [], groups: ['leads'] }] };
const ask: Verdict = { kind: 'ask', rules: ['catalog/bank/tools/pay/drift'], approvers, deadlineSeconds: 60 };

test('with the definition that it has now, its approvers and its time', () => {
  expect(checkDefinition(input, tool(NOW), ask)).toMatchObject({
    kind: 'reopen',
    code: 'DEFINITION_CHANGED',
    message: 'The definition of the tool is not the one that was shown: description was "Pays.", is "Pays twice.".',
    definition: { hash: NOW, description: 'Pays twice.' },
    approvers,
    deadlineSeconds: 60,
  });
});

test('also where policy would let it pass: then by those who were asked before', () => {
  const reopened = checkDefinition(input, tool(NOW), { kind: 'allow', rules: ['organisation/strategy/never'] });
  expect(reopened).toMatchObject({ kind: 'reopen', code: 'DEFINITION_CHANGED' });
  expect(reopened).not.toHaveProperty('approvers');
});

test('and not at all where it is as it was shown', () => {
  expect(checkDefinition(input, tool(SHOWN), ask)).toBeUndefined();
});
