/** Implements `countersign gateway`, which serves the HTTP API until it is asked to end. */
import { defined } from '../../contracts/defined.ts';
import type { Terminal } from '../session/terminal.ts';
import { type GatewaySettings, linesTo, loadGatewaySettings, startOn } from '../session/gateway.ts';
import { type Answer, ended, print, verb } from '../session/verb.ts';
import type { Gateway } from '../../gateway/gateway.ts';

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
      const gateway = await startOn(opened, settings, linesTo(terminal), terminal.env);
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

function warnOfDevelopment(terminal: Terminal, { config }: GatewaySettings): void {
  if (config.development === true)
    terminal.err(
      `${terminal.paint('red', 'WARNING: DEVELOPMENT LOGIN')}: whoever reaches ${config.host} may sign in as anybody. Never use this for real decisions.\n`,
    );
}

function gatewayAnswer({ url, metricsUrl }: Gateway, { config, trust }: GatewaySettings): Answer {
  const { oidc, development } = config;
  const who = oidc === undefined ? 'nobody is verified' : `tokens of ${oidc.issuer} for ${oidc.audience}`;
  const metrics = metricsUrl === undefined ? '' : `; metrics: ${metricsUrl}`;
  return {
    json: {
      url,
      issuer: oidc?.issuer,
      development: development === true,
      trust: trust.mode,
      ...defined({ metrics: metricsUrl }),
    },
    text: (paint) => `${paint('bold', 'gateway')} at ${paint('cyan', url)}, ${who}; API: ${url}/openapi.json${metrics}`,
  };
}
