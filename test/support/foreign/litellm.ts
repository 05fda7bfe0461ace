/**
 * Runs the proxy of LiteLLM as it is published, in front of a provider that hosts tools (model `relayed`), and as a
 * host of tools itself, with a model that a test scripts (model `gateway`).
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { ensureVenv } from '../../../scripts/python-venv.mjs';
import type { SseBridge } from './sse-bridge.ts';
import { HOSTING_KEY, type HostingProvider } from '../models/hosting-provider.ts';
import { OBEDIENT, type ObedientModel } from '../models/obedient-model.ts';
import { startProcess } from '../servers/real-servers.ts';

const PACKAGES = fileURLToPath(new URL('packages/litellm.txt', import.meta.url));
/** It loads all of its providers when it starts. */
const START_MS = 180_000;

export const LITELLM_KEY = 'sk-litellm-5f0e9b7ad3c14286b1e7';

export interface LiteLlm {
  /** As an OpenAI client is given it. */
  readonly baseUrl: string;
  /** Where this host of tools knows its server `bank`. */
  readonly bankUrl: string;
  close(): Promise<void>;
}

export interface LiteLlmParts {
  readonly provider: HostingProvider;
  readonly model: ObedientModel;
  /** Server `bank`, over HTTP+SSE: over the other transport LiteLLM lists nothing of one that speaks MCP 2026-07-28 alone. */
  readonly bank: Pick<SseBridge, 'url'>;
}

export async function startLiteLlm({ provider, model, bank }: LiteLlmParts): Promise<LiteLlm> {
  const command = await ensureVenv('litellm', PACKAGES);
  const folder = await mkdtemp(join(tmpdir(), 'countersign-litellm-'));
  const config = join(folder, 'config.yaml');
  const close = async (): Promise<void> => await rm(folder, { recursive: true, force: true });
  const relayed = { model: 'openai/gpt-5.1', api_base: provider.baseUrl, api_key: HOSTING_KEY };
  // A provider that has no Responses API: LiteLLM makes one of its Chat Completions.
  const gateway = { model: `lm_studio/${OBEDIENT}`, api_base: model.baseUrl, api_key: 'none' };
  try {
    const settings = {
      model_list: [
        { model_name: 'relayed', litellm_params: relayed },
        { model_name: 'gateway', litellm_params: gateway },
      ],
      mcp_servers: { bank: { url: bank.url, transport: 'sse' } },
      general_settings: { master_key: LITELLM_KEY },
      litellm_settings: { telemetry: false },
    };
    await writeFile(config, stringify(settings));
    const server = await startProcess({
      command,
      args: (port) => ['-m', 'litellm.proxy.proxy_cli', '--config', config, '--host', '127.0.0.1', '--port', `${port}`],
      // Without the table of prices that it would fetch.
      env: () => ({ HOME: folder, LITELLM_LOCAL_MODEL_COST_MAP: 'True' }),
      path: '/health/liveliness',
      withinMs: START_MS,
    });
    const { origin } = new URL(server.url);
    return {
      baseUrl: `${origin}/v1`,
      bankUrl: `${origin}/mcp/bank`,
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
