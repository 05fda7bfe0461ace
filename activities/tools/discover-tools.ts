/**
 * Lists one server's tools and pins them: definitions and hashes go to the artifact store, history gets a reference.
 *
 * 1. Lists with the same authorization with which tools are called (S1.7).
 */
import { cancellationSignal } from '@temporalio/activity';
import type { DiscoverInput } from '../../contracts/activities.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { Discovery, ServerTools } from '../../contracts/schemas/tool.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import { definitionHash } from '../../domain/digest.ts';
import { bounded } from '../../domain/escape.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import type { TokenBroker } from '../tokens/port.ts';
import { checkRun } from './dispatch-check.ts';
import type { ToolServer } from './port.ts';
import { currentScheduler } from './scheduler.ts';
import { accessTo, connectionOf } from './server-access.ts';

export const TOOLS_TYPE = 'application/vnd.countersign.tools+json';
const MOST_REFUSED_SHOWN = 50;

export interface DiscoverToolsParts {
  readonly config: Config;
  readonly artifacts: ArtifactStore;
  readonly broker: TokenBroker;
  readonly server: ToolServer;
}

export function createDiscoverTools({
  config,
  artifacts,
  broker,
  server,
}: DiscoverToolsParts): (input: DiscoverInput) => Promise<Discovery> {
  return async ({ run, server: binding, grant }) => {
    const mistaken = checkRun(run, currentScheduler());
    if (mistaken !== undefined) throw new CountersignError('DISPATCH_FORBIDDEN', mistaken.message);
    const access = accessTo(config, binding);
    const signal = cancellationSignal();
    const token = await broker.mint({
      run,
      server: binding.name,
      serverUrl: binding.url,
      signal,
      ...(grant === undefined ? {} : { grant }),
    });
    const { tools, refused } = await server.list(connectionOf(binding, access, token), signal);
    const pinned: ServerTools = {
      server: binding.name,
      serverUrl: binding.url,
      tools: tools.map((definition) => ({ definition, hash: definitionHash(definition) })),
    };
    return {
      server: binding.name,
      tools: await artifacts.put(new TextEncoder().encode(canonicalJson(pinned)), TOOLS_TYPE),
      count: tools.length,
      refused: refused
        .slice(0, MOST_REFUSED_SHOWN)
        .map(({ name, reason }) => ({ name: bounded(name, 128), reason: bounded(reason, 300) })),
    };
  };
}
