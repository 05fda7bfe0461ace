/** Implements `countersign gateway` and `countersign codec-server`, which serve until they are asked to end. */
import { defined } from '../../contracts/defined.ts';
import type { CodecServer } from '../../gateway/codec/server.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import {
  type CodecSettings,
  type GatewaySettings,
  linesTo,
  loadCodecSettings,
  loadGatewaySettings,
  startCodec,
  startOn,
} from '../session/gateway.ts';
import { locate } from '../session/session.ts';
import { type Answer, ended, type Given, print, verb } from '../session/verb.ts';

export const GATEWAY = verb({
  name: 'gateway',
  summary: 'serve the HTTP API: start runs, see what waits, answer',
  description:
    'Serve the HTTP API to backends and approvers, who sign in with tokens of your identity provider (gateway.oidc)',
  examples: ['gateway', 'gateway --config /etc/countersign.yaml --address temporal.example:7233'],
  note: 'Settings: gateway in countersign.yaml (docs/guide/gateway.md). The document of the API is at /openapi.json.',
  run: async (given) => {
    const { options, terminal, session } = given;
    const settings = await loadGatewaySettings(terminal, options);
    await session(async (opened) => {
      const gateway = await startOn(opened, settings, linesTo(terminal), terminal.env);
      try {
        const danger = ['DEVELOPMENT LOGIN', 'sign in as anybody. Never use this for real decisions'] as const;
        await serve(given, settings.config, danger, gatewayAnswer(gateway, settings));
      } finally {
        await gateway.stop();
        await settings.close();
      }
    });
    return undefined;
  },
});

export const CODEC_SERVER = verb({
  name: 'codec-server',
  summary: 'let Temporal UI and the temporal command read encrypted runs',
  description:
    'Decrypt payloads for Temporal UI and the temporal command, for people whom codecServer.may names (Temporal: remote data encoding)',
  examples: ['codec-server', 'codec-server --config /etc/countersign.yaml --namespace agents'],
  note: 'Settings: codecServer and encryption.keys in countersign.yaml (docs/guide/codec-server.md). It does not connect to Temporal.',
  run: async (given) => {
    const { options, terminal } = given;
    const settings = await loadCodecSettings(terminal, options);
    const { namespace } = locate(options);
    const server = await startCodec(settings, namespace, linesTo(terminal));
    try {
      const danger = ['DEVELOPMENT', 'read every encrypted run. Never use this for real data'] as const;
      await serve(given, settings.codecServer, danger, codecAnswer(server, namespace, settings));
    } finally {
      await server.stop();
    }
    return undefined;
  },
});

/** Says where a server is, and of one for development what everybody may do there, until the command is to end. */
async function serve(
  { options, terminal }: Pick<Given<object, object>, 'options' | 'terminal'>,
  { development, host }: Pick<CodecSettings['codecServer'] | GatewaySettings['config'], 'development' | 'host'>,
  [title, may]: readonly [title: string, may: string],
  answer: Answer,
): Promise<void> {
  if (development === true)
    terminal.err(`${terminal.paint('red', `WARNING: ${title}`)}: whoever reaches ${host} may ${may}.\n`);
  print(terminal, answer, options.json === true);
  await ended(terminal.interrupted());
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

function codecAnswer({ url, metricsUrl }: CodecServer, namespace: string, { codecServer }: CodecSettings): Answer {
  const { oidc, development, origins } = codecServer;
  const who = development === true ? 'nobody is verified' : `tokens of ${oidc?.issuer} for ${oidc?.audience}`;
  const where = origins.length === 0 ? 'no pages' : `pages of ${origins.join(', ')}`;
  return {
    json: {
      url,
      namespace,
      issuer: oidc?.issuer,
      development: development === true,
      origins,
      ...defined({ metrics: metricsUrl }),
    },
    text: (paint) =>
      `${paint('bold', 'codec server')} of namespace ${namespace} at ${paint('cyan', url)}, ${who}; ${where}${metricsUrl === undefined ? '' : `; metrics: ${metricsUrl}`}`,
  };
}
