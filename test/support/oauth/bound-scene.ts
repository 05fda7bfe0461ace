/**
 * Puts together, for bound tokens (DPoP): an authorization server that nobody here wrote, an MCP server that nobody
 * here wrote, the guard between, and a worker's way of listing tools and calling one.
 */
import { afterAll, beforeAll } from '@jest/globals';
import { connectionOf, listAuthorized } from '../../../activities/discovery/access.ts';
import { LEGACY_CALLS } from '../../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpToolServer } from '../../../activities/mcp/mcp-server.ts';
import type { CallEnding, ToolCall, ToolListing, ToolServer } from '../../../activities/mcp/port.ts';
import { withToken } from '../../../activities/tokens/broker.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../../../activities/tokens/port.ts';
import type { SenderConstrained } from '../../../contracts/schemas/credentials.ts';
import { aCall, aDefinition, observedArtifacts } from '../activities/tool-call.ts';
import { loopbackEgress } from '../egress.ts';
import { type RunningMcpServer, startEverythingServer } from '../servers/real-servers.ts';
import { brokerFor, CLIENT, runOf, SECRET } from './broker.ts';
import { type ProofGuard, type ProofRules, type SeenAtGuard, startProofGuard } from './proof-guard.ts';
import { type ProviderOptions, type RunningProvider, startProvider } from './provider.ts';

export const AT_SERVER = 'list call';
export const TOOL_SCOPES = { discovery: ['list'], default: ['call'] };

export interface BoundScene {
  readonly guard: ProofGuard;
  readonly provider: RunningProvider;
  close(): Promise<void>;
}

/** Starts a guard and an authorization server that know each other. */
export async function startBoundScene(
  behind: string,
  rules: Partial<ProofRules> = {},
  options: Partial<ProviderOptions> = {},
): Promise<BoundScene> {
  let issuer = '';
  const guard = await startProofGuard(behind, { issuer: () => issuer, keysUrl: () => `${issuer}/jwks`, ...rules });
  const provider = await startProvider({ clients: [CLIENT], resources: { [guard.url]: AT_SERVER }, ...options });
  ({ issuer } = provider);
  return {
    guard,
    provider,
    close: async () => {
      await Promise.all([guard.close(), provider.close()]);
    },
  };
}

/**
 * Starts the reference server for the tests of a file, and closes it after them with all that they have opened.
 * @returns scenes before that server, where it is, and what is to be closed
 */
export function boundScenes() {
  let everything: RunningMcpServer;
  const open: { close(): Promise<void> }[] = [];
  beforeAll(async () => {
    everything = await startEverythingServer();
  });
  afterAll(async () => {
    await Promise.all([everything, ...open].map(async (each) => each.close()));
  });
  const scene = async (rules?: Partial<ProofRules>, options?: Partial<ProviderOptions>): Promise<BoundScene> => {
    const started = await startBoundScene(everything.url, rules, options);
    open.push(started);
    return started;
  };
  return { scene, open, behind: () => everything.url };
}

export function boundBroker(
  { guard, provider }: { readonly guard: Pick<ProofGuard, 'url'>; readonly provider: Pick<RunningProvider, 'issuer'> },
  senderConstrained?: SenderConstrained,
): TokenBroker {
  const own = { kind: 'client-credentials' as const, issuer: provider.issuer, scopes: TOOL_SCOPES };
  const mode = senderConstrained === undefined ? {} : { senderConstrained };
  const credentials = { ...own, clientId: CLIENT.id, clientSecret: SECRET, ...mode };
  return brokerFor({ servers: { notes: { url: guard.url, credentials } } });
}

export function requestAt({ url }: Pick<ProofGuard, 'url'>, tool?: string): TokenRequest {
  return { run: runOf(1), server: 'notes', serverUrl: url, ...(tool === undefined ? {} : { tool }) };
}

function toolServer(): ToolServer {
  return createMcpToolServer({ legacy: LEGACY_CALLS, artifacts: observedArtifacts(), egress: loopbackEgress() });
}

const ACCESS = { headers: {}, protocol: 'auto' } as const;

export async function listedBy(
  broker: TokenBroker,
  at: Pick<ProofGuard, 'url'>,
): Promise<{ readonly listing: ToolListing }> {
  const { signal } = new AbortController();
  return await listAuthorized(broker, toolServer(), requestAt(at), ACCESS, signal);
}

export interface CalledBy {
  readonly ending: CallEnding;
  /** The one used last. */
  readonly token: MintedToken;
}

/** Calls the tool `echo`, as a dispatch does. */
export async function calledBy(
  broker: TokenBroker,
  { url }: Pick<ProofGuard, 'url'>,
  { request = requestAt({ url }, 'echo'), ...call }: Partial<ToolCall> & { readonly request?: TokenRequest } = {},
): Promise<CalledBy> {
  const used = await withToken<CallEnding>(broker, request, {
    use: async (token, known) => {
      const connection = connectionOf({ name: 'notes', url }, ACCESS, token, known);
      const asked = { definition: aDefinition({ name: 'echo' }), arguments: { message: 'hello' }, ...call };
      return await toolServer().call(connection, aCall(asked));
    },
    isRefused: (ending) => ending.kind === 'refused' && ending.code === 'TOOL_UNAUTHORIZED',
  });
  if (used.kind === 'none') throw used.error;
  return { ending: used.used, token: used.token };
}

/** How `calledBy` ends at the reference server. */
export const ECHOED = {
  kind: 'executed',
  isError: false,
  result: { content: [{ type: 'text', text: 'Echo: hello' }] },
} as const;

/** Each verdict once, in the order in which they came first. */
export function verdictsOf({ seen }: ProofGuard): string[] {
  return [...new Set(seen.map(({ verdict }) => verdict))];
}

export function callsAt({ seen }: ProofGuard): SeenAtGuard[] {
  return seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call');
}
