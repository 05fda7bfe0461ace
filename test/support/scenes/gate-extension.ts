/**
 * Connects clients that take tasks by the extension of MCP 2026-07-28, by the package of the protocol's own
 * maintainers. The SDK's client refuses results that are tasks, so requests leave here as the package frames them.
 */
import {
  createTaskSessionFromClient,
  type JsonRpcResponse,
  type TaskEnabledSession,
} from '@modelcontextprotocol/ext-tasks/client';
import type { JsonValue } from '@modelcontextprotocol/ext-tasks/core';
import { z } from 'zod';
import { type GateWorld, type KeyName, secretOf } from './gate-world.ts';

const VERSION = '2026-07-28';
const INFO = { name: 'test', version: '1' };

const Sent = z.object({
  method: z.string(),
  params: z.looseObject({ name: z.string().optional(), taskId: z.string().optional() }),
});
const Answered = z.object({
  result: z.json().optional(),
  error: z.object({ code: z.number(), message: z.string(), data: z.json().optional() }).optional(),
});

export interface RawAnswer {
  readonly result?: JsonValue | undefined;
  readonly error?:
    | { readonly code: number; readonly message: string; readonly data?: JsonValue | undefined }
    | undefined;
}

/** Sends one request of 2026-07-28 as it is. */
export async function sendRaw(
  { gateway }: Pick<GateWorld, 'gateway'>,
  name: KeyName,
  request: JsonValue,
  at = gateway.url,
): Promise<RawAnswer> {
  const { method, params } = Sent.parse(request);
  const mirrored = params.name ?? params.taskId;
  const response = await fetch(`${at}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${secretOf(name)}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': VERSION,
      'mcp-method': method,
      ...(mirrored !== undefined && { 'mcp-name': mirrored }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...Sent.loose().parse(request) }),
  });
  const lines = (await response.text()).split('\n');
  const data = lines.findLast((line) => line.startsWith('data: ') && line.includes('"id":1')) ?? lines.join('');
  return Answered.parse(JSON.parse(data.replace(/^data: /, '')));
}

/** What a request of 2026-07-28 says of its client. */
export function declaring(extensions: Readonly<Record<string, JsonValue>>): JsonValue {
  return {
    'io.modelcontextprotocol/protocolVersion': VERSION,
    'io.modelcontextprotocol/clientInfo': INFO,
    'io.modelcontextprotocol/clientCapabilities': { extensions },
  };
}

/** Starts a session that takes tasks; whoever starts it closes it. */
export async function taskSession(
  scene: GateWorld,
  name: KeyName,
  at = scene.gateway.url,
): Promise<TaskEnabledSession> {
  const client = await scene.connect(name);
  return createTaskSessionFromClient(client, {
    endpointId: name,
    rawDispatch: async (request): Promise<JsonRpcResponse> => {
      const { result, error } = await sendRaw(scene, name, request, at);
      if (error === undefined) return { kind: 'result', result: result ?? {} };
      return { kind: 'error', error: { code: error.code, message: error.message } };
    },
    v2RequestFraming: { protocolVersion: VERSION, clientInfo: INFO, clientCapabilities: {} },
  });
}
