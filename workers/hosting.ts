/** Adds the servers that the providers of models call (docs/adr/0080). Their adapter is loaded only if one is configured. */
import type { ArtifactStore } from '../activities/artifacts/port.ts';
import type { Egress } from '../activities/egress/fetch.ts';
import type { ToolServer } from '../activities/mcp/port.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { mayHost } from '../domain/run/hosted.ts';

/** @param config with the keys of the models through which servers are called */
export async function withHostedServers(
  local: ToolServer,
  { servers, models }: Pick<Config, 'servers' | 'models'>,
  artifacts: ArtifactStore,
  egress: Egress,
): Promise<ToolServer> {
  if (Object.values(servers).every(({ execute = 'local' }) => execute === 'local')) return local;
  const { createChoosingServer, createHostedServer } = await import('../activities/hosted/hosted-server.ts');
  const { createResponsesApi } = await import('../activities/models/responses-api.ts');
  const hosting = new Map(
    Object.entries(models).flatMap(([name, model]) =>
      model.provider === 'openai' && mayHost({ models }, name)
        ? [[name, { ask: createResponsesApi(name, model, egress), apiKey: model.apiKey }] as const]
        : [],
    ),
  );
  return createChoosingServer(local, createHostedServer({ artifacts, models: (name) => hosting.get(name) }));
}
