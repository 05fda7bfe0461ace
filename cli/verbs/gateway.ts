/** Implements `countersign gateway`, which serves the HTTP API until it is asked to end. */
import type { Terminal } from '../session/terminal.ts';
import type { Session } from '../session/session.ts';
import { artifactReader } from '../session/session.ts';
import { type GatewaySettings, loadGatewaySettings } from '../session/gateway-settings.ts';
import { type Answer, print, safeJson, verb } from '../session/verb.ts';
import { packageVersion } from '../../workers/setup.ts';
import type { Gateway, GatewayOptions } from '../../gateway/gateway.ts';

export const GATEWAY = verb({
  name: 'gateway',
  summary: 'serve the HTTP API: start runs, see what waits, answer',
  description:
    'Serve the HTTP API to backends and approvers, who sign in with tokens of your identity provider (gateway.oidc)',
  examples: ['gateway', 'gateway --config /etc/countersign.yaml --address temporal.example:7233'],
  note: 'Settings: gateway in countersign.yaml (docs/guide/gateway.md). The document of the API is at /openapi.json.',
  run: async ({ options, terminal, session }) => {
    const settings = await loadGatewaySettings(terminal, options);
    await session(async (opened) => {
      const gateway = await startOn(opened, settings, linesTo(terminal));
      try {
        warnOfDevelopment(terminal, settings);
        print(terminal, gatewayAnswer(gateway, settings), options.json === true);
        await ended(terminal.interrupted());
      } finally {
        await gateway.stop();
        await settings.close();
      }
    });
    return undefined;
  },
});

/** Starts a gateway on the connection of a session. */
export async function startOn(
  { client, settings: { taskQueue, artifacts } }: Pick<Session, 'client' | 'settings'>,
  { config, trust, ask }: GatewaySettings,
  log: GatewayOptions['log'],
): Promise<Gateway> {
  // Its HTTP server takes half a second to load, so other commands do without it.
  const { startGateway } = await import('../../gateway/gateway.ts');
  const version = packageVersion();
  return await startGateway({
    config,
    trust,
    ask,
    client,
    taskQueue,
    artifacts: artifactReader(artifacts),
    version,
    log,
  });
}

/** Writes the gateway's own lines as JSON to standard error. */
export function linesTo(terminal: Terminal): GatewayOptions['log'] {
  return {
    warn: (message, fields) =>
      terminal.err(`${safeJson({ level: 'warn', time: new Date().toISOString(), message, ...fields })}\n`),
  };
}

function warnOfDevelopment(terminal: Terminal, { config }: GatewaySettings): void {
  if (config.development === true)
    terminal.err(
      `${terminal.paint('red', 'WARNING: DEVELOPMENT LOGIN')}: whoever reaches ${config.host} may sign in as anybody. Never use this for real decisions.\n`,
    );
}

function gatewayAnswer({ url }: Gateway, { config, trust }: GatewaySettings): Answer {
  const { oidc, development } = config;
  const who = oidc === undefined ? 'nobody is verified' : `tokens of ${oidc.issuer} for ${oidc.audience}`;
  return {
    json: { url, issuer: oidc?.issuer, development: development === true, trust: trust.mode },
    text: (paint) => `${paint('bold', 'gateway')} at ${paint('cyan', url)}, ${who}; API: ${url}/openapi.json`,
  };
}

async function ended(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
