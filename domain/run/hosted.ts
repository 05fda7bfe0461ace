/**
 * Chooses who calls a server of a run: this service, or the provider of the run's model (docs/adr/0080).
 *
 * 1. The operator opts in: without `execute` in the configuration this service calls, whatever a run asks for.
 * 2. A run chooses only where the configuration says `auto`.
 * 3. Only a provider that asks before each call may call, and only with a token that it can show. Where there is none,
 *    `hosted` is refused and `auto` is local.
 */
import { defined, own } from '../../contracts/defined.ts';
import type { Config, ModelConfig, ServerConfig } from '../../contracts/schemas/config.ts';
import type { Execute } from '../../contracts/schemas/run-spec.ts';
import type { HostedBy } from '../../contracts/schemas/tool.ts';
import { type Refusal, refuse } from '../text/refusal.ts';

export interface Executing {
  readonly server: string;
  /** `execute` of the configured server; absent for servers of catalogs and of the run itself, too. */
  readonly configured?: Execute | undefined;
  readonly asked?: Execute | undefined;
  readonly model: string;
  /** True if the provider of the model asks before it calls. */
  readonly canHost: boolean;
  /** True if tokens for the server must be bound to a key of this service, which a provider cannot show. */
  readonly isBound: boolean;
  /** True if a catalog sets the server's tools: it lists them itself. */
  readonly hasCatalog: boolean;
  readonly path: string;
}

export function executionOf(given: Executing): 'local' | 'hosted' | Refusal {
  const { server, configured = 'local', asked = configured, path } = given;
  if (asked !== configured && configured !== 'auto' && !(asked === 'auto' && configured === 'local'))
    return refuse(
      'SPEC_INVALID',
      `${path}.execute is ${asked}, and server ${server} is configured as ${configured}: leave it out, or ask the operator to configure auto.`,
      { path: `${path}.execute` },
    );
  const wanted = configured === 'local' ? 'local' : asked;
  if (wanted === 'local') return 'local';
  const obstacle = obstacleTo(given);
  if (obstacle === undefined) return 'hosted';
  if (wanted === 'auto') return 'local';
  return refuse(
    'HOSTED_UNSUPPORTED',
    `${path}: server ${server} is to be called by the provider of the model (execute: hosted), but ${obstacle}, or configure execute: auto or local.`,
    { path },
  );
}

function obstacleTo({ model, canHost, isBound, hasCatalog }: Executing): string | undefined {
  if (hasCatalog)
    return `its tools are set by a catalog, which lists and calls them itself. Take it out of the catalog`;
  if (isBound)
    return `its tokens must be bound to a key, which no provider can show. Configure senderConstrained: preferred`;
  if (canHost) return undefined;
  return `the provider of model ${model} does not ask before it calls an MCP server. Name a model of provider openai without baseUrl, or one with asksBeforeCalls: true`;
}

/** True if the operator wants no token for the server that anybody could use who reads it. */
export function requiresBoundTokens(server: Pick<ServerConfig, 'credentials'> | undefined): boolean {
  const credentials = server?.credentials;
  return (
    credentials !== undefined && 'senderConstrained' in credentials && credentials.senderConstrained === 'required'
  );
}

/** True if the provider asks before it calls an MCP server: OpenAI's Responses API, or what the operator calls so. */
export function mayHost({ models }: Pick<Config, 'models'>, model: string): boolean {
  const configured = hostOf(models, model);
  return configured !== undefined && (configured.asksBeforeCalls ?? configured.baseUrl === undefined);
}

/** Returns how the provider is reached that calls the server for the model: people consent to a call by it. */
export function hostedBy(
  { servers, models }: Pick<Config, 'servers' | 'models'>,
  server: string,
  model: string,
): HostedBy {
  return {
    model,
    ...defined({ connectorId: own(servers, server)?.connectorId, baseUrl: hostOf(models, model)?.baseUrl }),
  };
}

function hostOf(models: Config['models'], name: string): Exclude<ModelConfig, { provider: 'scripted' }> | undefined {
  const configured = own(models, name);
  return configured?.provider === 'openai' ? configured : undefined;
}
