/** Failures that MCP makes: errors in JSON-RPC, tools that vanished, results that break a promise. */
import { expect } from '@jest/globals';
import { aDefinition } from '../support/mcp-call.ts';
import { type FailureRow, LOST, ran, refused, UNKNOWN } from './tools-failure-row.ts';

const SCHEMA = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };

export const MCP_FAILURES: readonly FailureRow[] = [
  {
    id: 'M-rpc-malformed',
    title: 'an answer with a field too many: unknown, it is no JSON-RPC',
    does: ran(({ json, answerWith }) => json(answerWith({ content: [] }).replace('{', '{"error":null,'))),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-rpc-other-id',
    title: 'an answer to another request: unknown',
    does: ran(({ json }) => json('{"jsonrpc":"2.0","id":4711,"result":{"resultType":"complete","content":[]}}')),
    ends: LOST,
    executions: 1,
  },
  {
    id: 'M-gone-spec',
    title: 'a tool that vanished, in words of the specification: refused',
    does: ({ error }) => error(-32_602, 'Unknown tool: write_file'),
    ends: refused('TOOL_UNKNOWN'),
    executions: 0,
  },
  {
    id: 'M-gone-v2',
    title: 'a tool that vanished, in words of the v2 SDK: refused',
    does: ({ error }) => error(-32_602, 'Tool write_file not found'),
    ends: refused('TOOL_UNKNOWN'),
    executions: 0,
  },
  {
    id: 'M-gone-v1',
    title: 'a tool that vanished, as the v1 SDK reports it in a result: refused',
    does: ({ result }) =>
      result({ isError: true, content: [{ type: 'text', text: 'MCP error -32602: Tool write_file not found' }] }),
    ends: refused('TOOL_UNKNOWN'),
    executions: 0,
  },
  {
    id: 'M-rpc-32602',
    title: 'arguments that the server finds invalid: refused',
    does: ({ error }) => error(-32_602, 'path is required'),
    ends: refused('TOOL_REFUSED'),
    executions: 0,
  },
  {
    id: 'M-rpc-32601',
    title: 'a server without tools/call: refused',
    does: ({ error }) => error(-32_601, 'Method not found'),
    ends: refused('TOOL_REFUSED'),
    executions: 0,
  },
  {
    id: 'M-rpc-32603',
    title: 'a JSON-RPC internal error: unknown',
    does: ran(({ error }) => error(-32_603, 'Internal error')),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-rpc-own',
    title: "a JSON-RPC error of the server's own: unknown",
    does: ran(({ error }) => error(-32_000, 'disk full')),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-rpc-32602-after',
    title: 'a server that rejects its own result as -32602: unknown, because it has run',
    does: ran(({ error }) =>
      error(-32_602, 'Tool write_file has an output schema but no structured content was provided'),
    ),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-is-error',
    title: 'isError: it ran and says that it failed',
    does: ran(({ result }) => result({ isError: true, content: [{ type: 'text', text: 'no space' }] })),
    ends: { kind: 'executed', isError: true },
    executions: 1,
  },
  {
    id: 'M-is-error-odd',
    title: 'isError of another type: it ran, and did not say that it succeeded',
    does: ran(({ result }) => result({ isError: 'yes', content: [] })),
    ends: { kind: 'executed', isError: true },
    executions: 1,
  },
  {
    id: 'M-schema-broken',
    title: 'a structured result that breaks the output schema: executed, with a warning',
    does: ran(({ result }) => result({ content: [], structuredContent: { n: 'seven' } })),
    ends: {
      kind: 'executed',
      isError: false,
      result: { content: [], structured: { n: 'seven' }, warnings: [expect.stringContaining('output schema')] },
    },
    executions: 1,
    call: { definition: aDefinition({ outputSchema: SCHEMA }) },
  },
  {
    id: 'M-schema-missing',
    title: 'a promised structured result that is missing: executed, with a warning',
    does: ran(({ result }) => result({ content: [{ type: 'text', text: 'ok' }] })),
    ends: {
      kind: 'executed',
      isError: false,
      result: { content: [{ type: 'text', text: 'ok' }], warnings: [expect.stringContaining('gave none')] },
    },
    executions: 1,
    call: { definition: aDefinition({ outputSchema: SCHEMA }) },
  },
  {
    id: 'M-content-odd',
    title: 'content of a kind that the SDK rejects: executed, the result is not lost',
    does: ran(({ result }) =>
      result({
        content: [
          { type: 'hologram', data: 'x' },
          { type: 'text', text: 'ok' },
        ],
      }),
    ),
    ends: {
      kind: 'executed',
      isError: false,
      result: { content: [{ type: 'text', text: 'ok' }], warnings: [expect.stringContaining('hologram')] },
    },
    executions: 1,
  },
  {
    id: 'M-input-required',
    title: 'a result that asks for input: unknown, it may have done a part',
    does: ran(({ result }) =>
      result({ resultType: 'input_required', inputRequests: { a: { method: 'elicitation/create', params: {} } } }),
    ),
    ends: UNKNOWN,
    executions: 1,
    eras: ['modern'],
  },
];
