/**
 * Serves the second half of the tool server of recorded runs: MCP 2025-11-25, with one tool that can only be
 * called as a task.
 * Its address never changes. Ids of sessions and tasks are random, as with real servers.
 */
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';

export const TASK_PATH = '/tasks';

export interface TaskWorks {
  serve(message: TaskMessage, response: ServerResponse): void;
  /** Finishes all tasks in progress. */
  finish(): void;
}

export interface TaskMessage {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: object;
}

const TOOL = {
  name: 'dig_note',
  description: 'Digs for one note, for as long as it takes.',
  inputSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  execution: { taskSupport: 'required' },
};

export function createTaskWorks(): TaskWorks {
  const cancelled = new Set<string>();
  const begun = new Set<string>();
  const finished = new Set<string>();
  const stateOf = (taskId: string): object => {
    const status = cancelled.has(taskId) ? 'cancelled' : finished.has(taskId) ? 'completed' : 'working';
    const times = { createdAt: '2026-01-01T00:00:00.000Z', lastUpdatedAt: '2026-01-01T00:00:00.000Z' };
    return { taskId, status, statusMessage: `still ${status}`, ttl: 3_600_000, pollInterval: 1_000, ...times };
  };
  return {
    finish: () => begun.forEach((taskId) => finished.add(taskId)),
    serve: ({ id, method, params }, response) => {
      const taskId = params !== undefined && 'taskId' in params ? String(params.taskId) : '';
      const answer = (fields: object): void =>
        void response
          .setHeader('content-type', 'application/json')
          .end(JSON.stringify({ jsonrpc: '2.0', id, ...fields }));
      const result = (fields: object): void => answer({ result: fields });
      switch (method) {
        case 'server/discover':
          return answer({ error: { code: -32_601, message: 'Method not found' } });
        case 'initialize':
          response.setHeader('mcp-session-id', randomUUID());
          return result({
            protocolVersion: '2025-11-25',
            capabilities: { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } },
            serverInfo: { name: 'works', version: '1' },
          });
        case 'tools/list':
          return result({ tools: [TOOL] });
        case 'tools/call': {
          const begunNow = randomUUID();
          begun.add(begunNow);
          return result({ task: stateOf(begunNow) });
        }
        case 'tasks/cancel':
          cancelled.add(taskId);
          return result(stateOf(taskId));
        case 'tasks/get':
          return result(stateOf(taskId));
        case 'tasks/result':
          return result({ content: [{ type: 'text', text: `found by ${taskId}` }] });
        default:
          return void response.writeHead(202).end();
      }
    },
  };
}
