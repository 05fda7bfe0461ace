/**
 * Runs the server of llama-stack as it is published, with a model that a test scripts. It has an agent of its own: its
 * Responses API lists and calls MCP servers, over HTTP+SSE, with headers given in each request.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { ensureVenv } from '../../../scripts/python-venv.mjs';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { OBEDIENT, type ObedientModel, startObedientModel } from '../models/obedient-model.ts';
import { object, objects, stringOf } from '../models/dialect.ts';
import { startProcess } from '../servers/real-servers.ts';

const PACKAGES = fileURLToPath(new URL('packages/llama-stack.txt', import.meta.url));
/** It loads all of its providers when it starts. */
const START_MS = 120_000;

export interface LlamaStack {
  /** As an OpenAI client is given it. */
  readonly baseUrl: string;
  readonly model: ObedientModel;
  close(): Promise<void>;
}

export async function startLlamaStack(): Promise<LlamaStack> {
  const command = await ensureVenv('llama-stack', PACKAGES);
  const folder = await mkdtemp(join(tmpdir(), 'countersign-llama-stack-'));
  const model = await startObedientModel();
  const config = join(folder, 'run.yaml');
  const close = async (): Promise<void> => {
    await model.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await writeFile(config, stringify(configOf(folder, model)));
    const server = await startProcess({
      command,
      args: (port) => ['-m', 'llama_stack.distribution.server.server', '--yaml-config', config, '--port', `${port}`],
      env: () => ({ HOME: folder }),
      path: '/v1/health',
      withinMs: START_MS,
    });
    return {
      baseUrl: `${new URL(server.url).origin}/v1/openai/v1`,
      model,
      close: async () => {
        await server.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function configOf(folder: string, model: ObedientModel): JsonObject {
  const sqlite = (name: string): JsonObject => ({ type: 'sqlite', db_path: join(folder, `${name}.db`) });
  const provider = (id: string, kind: string, config: JsonObject): JsonObject[] => [
    { provider_id: id, provider_type: `${kind}::${id}`, config },
  ];
  return {
    version: '2',
    image_name: 'test',
    apis: ['agents', 'inference', 'safety', 'tool_runtime', 'vector_io'],
    providers: {
      inference: provider('vllm', 'remote', { url: model.baseUrl, api_token: 'none' }),
      agents: provider('meta-reference', 'inline', {
        persistence_store: sqlite('agents'),
        responses_store: sqlite('responses'),
      }),
      tool_runtime: provider('model-context-protocol', 'remote', {}),
    },
    metadata_store: sqlite('registry'),
    models: [{ model_id: OBEDIENT, provider_id: 'vllm', provider_model_id: OBEDIENT, model_type: 'llm', metadata: {} }],
    server: { host: '127.0.0.1' },
  };
}

export interface Asking {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly tool: string;
  readonly arguments: JsonObject;
}

export interface Answer {
  readonly status: number;
  /** What it was told of the call: its model repeats that. */
  readonly said: string;
}

let asked = 0;

/** Lets its agent call a tool of an MCP server, and returns what its model was told of that. */
export async function callBy(stack: LlamaStack, { url, headers, tool, arguments: args }: Asking): Promise<Answer> {
  const words = `order ${(asked += 1)}`;
  stack.model.obey(words, tool, args);
  const server = { type: 'mcp', server_label: 'gate', server_url: url, headers, require_approval: 'never' };
  const response = await fetch(`${stack.baseUrl}/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: OBEDIENT, store: false, input: words, tools: [server] }),
  });
  // Sound: its answers are JSON.
  const body = object((await response.json()) as JsonValue);
  const message = objects(body['output']).findLast(({ type }) => type === 'message');
  return {
    status: response.status,
    said: objects(message?.['content'])
      .map(({ text }) => stringOf(text))
      .join(''),
  };
}
