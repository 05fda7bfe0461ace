/** Which tool a dispatch meets: the one that was judged, at the address that was judged, and one that this run can call. */
import { beforeEach, expect, test } from '@jest/globals';
import type { ToolDefinition } from '../../../../contracts/schemas/tool.ts';
import { definitionHash } from '../../../../domain/request/digest.ts';
import { DISPATCH_URL, dispatchScene } from '../../../support/activities/dispatch.ts';
import type { CallToolParts } from '../../../../activities/gate/send.ts';

const { done, dispatched } = dispatchScene();
beforeEach(() => {
  done.length = 0;
});

test('INV-G1: a call goes to the address that was judged and signed, and to no other of its server', async () => {
  expect(await dispatched({}, { server: { name: 'files', url: DISPATCH_URL } })).toMatchObject({ kind: 'ended' });
  expect(done).toContain('called');
  done.length = 0;
  expect(await dispatched({}, { server: { name: 'files', url: 'https://prod.example/mcp' } })).toMatchObject({
    kind: 'refused',
    code: 'DISPATCH_FORBIDDEN',
  });
  expect(done).toEqual([]);
});

/** The list before the call has the tool otherwise. */
const listedAs = (over: Partial<ToolDefinition>): Partial<CallToolParts> => ({
  liveTools: {
    current: async (_, known) => {
      const definition = { ...known.definition, ...over };
      return { tool: { ...known, definition, hash: definitionHash(definition) }, secrets: [] };
    },
  },
});

test('nobody is asked about a change after which the run cannot call the tool', async () => {
  const described = await dispatched(listedAs({ description: 'Does it otherwise.' }));
  expect(described).toMatchObject({ kind: 'reopen', code: 'DEFINITION_CHANGED' });
  expect(await dispatched(listedAs({ taskSupport: 'required' }))).toMatchObject({
    kind: 'ended',
    outcome: { kind: 'failed', code: 'TOOL_REFUSED', executed: false, message: expect.stringContaining('`tasks`') },
  });
  expect(done).toEqual([]);
});
