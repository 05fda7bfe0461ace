/**
 * Hashes of fixed values: what was shown, signed and stored by one version must hash the same in every later one, and
 * in clients of other languages. Literals, never imports.
 */
import { describe, expect, test } from '@jest/globals';
import { RunSpec } from '../../contracts/schemas/run-spec.ts';
import { definitionHash, requestDigest, specHash } from '../../domain/request/digest.ts';
import { READ_RESOURCE_TOOL } from '../../domain/run/resource-link.ts';
import { extendDigest, sealEntry } from '../../domain/run/journal.ts';
import { assembleToolset } from '../../domain/run/toolset.ts';

const definition = {
  name: 'issue.create',
  title: 'Create issue',
  description: 'Creates an issue.',
  inputSchema: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] },
  annotations: { readOnlyHint: false },
};

const jwe = { protected: 'p', encrypted_key: 'k', iv: 'i', ciphertext: 'c', tag: 't', aad: 'a' };

describe('hashes', () => {
  test('definition of a tool', () => {
    expect(definitionHash(definition)).toBe('76644ff2b3d27c7700ec1f157249c744f7c1deefc82d0ab859f0072833fb2ca8');
  });

  test('definition of the tool that reads linked resources: another text asks again in runs that wait', () => {
    expect(definitionHash(READ_RESOURCE_TOOL)).toBe('1ec59bd6362150491018e444e74526a7c340e597c8de9e5b90d454169ded9f6d');
  });

  test('digest of a request', () => {
    const parts = {
      namespace: 'default',
      tenant: 'acme',
      workflowId: 'ticket/4711',
      callId: 't3.c1',
      runId: '0197f3a4-7c1e-7d32-9a55-3b8f3f2f9c10',
      generation: 2,
      target: {
        server: 'tracker',
        serverUrl: 'https://tracker.example/mcp',
        tool: 'issue.create',
        definitionHash: '1111111111111111111111111111111111111111111111111111111111111111',
      },
      arguments: { title: 'Größe 😀', labels: ['a', 'b'], priority: 1.5, parent: null },
      approvers: {
        allOf: [
          { layer: 'organisation' as const, ids: [], groups: ['ops'] },
          { layer: 'run' as const, ids: ['ann'], groups: [] },
        ],
      },
    };
    expect(requestDigest(parts)).toBe('eb511d39136f146c7e8a0fbca65b056793684fdf268e6925854b24b0dbdb0488');
  });

  test('spec of a run', () => {
    const spec = RunSpec.parse({
      agent: { name: 'clerk', model: 'default', instructions: 'Be brief.' },
      input: [{ role: 'user', content: 'Tidy up.' }],
      initiator: { id: 'ann', groups: ['ops'], tenant: 'acme' },
      servers: [{ name: 'tracker', allowedTools: ['issue.create'] }],
      grants: [{ server: 'tracker', jwe }],
      policy: { strategy: 'annotations', servers: { tracker: { default: 'ask' } } },
      limits: { turns: 12 },
    });
    expect(specHash(spec)).toBe('d9fcec6de30fd0596238aec91a304672155a4b7c8ed7a8c560a78b93e2c22ff5');
  });

  test('entry of a ledger', () => {
    const prev = '2222222222222222222222222222222222222222222222222222222222222222';
    const textHash = '3333333333333333333333333333333333333333333333333333333333333333';
    expect(sealEntry(7, prev, 1_767_225_600_000, { kind: 'said', messageId: 'm-1', from: 'ann', textHash })).toEqual({
      seq: 7,
      at: '2026-01-01T00:00:00.000Z',
      prev,
      fact: { kind: 'said', messageId: 'm-1', from: 'ann', textHash },
      hash: '3329b3f0af8d6481f4e8ba13ec4f6737cfe1337bd971d9261f1992f1646fbb79',
    });
  });

  test('digest of a conversation', () => {
    const empty = '0000000000000000000000000000000000000000000000000000000000000000';
    expect(extendDigest(empty, { role: 'user', text: 'Tidy up.' })).toBe(
      '08ccff71101836b4b12ff6c9b77f05eecdf8dd58f410e69cddda9b66e781f4f3',
    );
  });

  test('name under which a model sees a tool whose own name is not legal everywhere', () => {
    const tools = {
      server: 'tracker',
      serverUrl: 'https://tracker.example/mcp',
      tools: [{ definition, hash: '1'.repeat(64) }],
    };
    expect(assembleToolset([{ tools }]).map(({ modelName }) => modelName)).toEqual([
      'tracker__issue_create_f8dc6e161b24e8b1',
    ]);
  });
});
