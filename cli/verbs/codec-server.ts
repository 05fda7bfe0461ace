/** Implements `countersign codec-server`, which decrypts payloads for Temporal UI until it is asked to end. */
import { defined } from '../../contracts/defined.ts';
import type { CodecServer } from '../../gateway/codec/server.ts';
import { type CodecSettings, loadCodecSettings, startCodec } from '../session/codec-server.ts';
import { linesTo } from '../session/gateway.ts';
import { locate } from '../session/session.ts';
import { type Answer, ended, print, verb } from '../session/verb.ts';

export const CODEC_SERVER = verb({
  name: 'codec-server',
  summary: 'let Temporal UI and the temporal command read encrypted runs',
  description:
    'Decrypt payloads for Temporal UI and the temporal command, for people whom codecServer.may names (Temporal: remote data encoding)',
  examples: ['codec-server', 'codec-server --config /etc/countersign.yaml --namespace agents'],
  note: 'Settings: codecServer and encryption.keys in countersign.yaml (docs/guide/codec-server.md). It does not connect to Temporal.',
  run: async ({ options, terminal }) => {
    const settings = await loadCodecSettings(terminal, options);
    const { namespace } = locate(options);
    const server = await startCodec(settings, namespace, linesTo(terminal));
    try {
      if (settings.config.development === true)
        terminal.err(
          `${terminal.paint('red', 'WARNING: DEVELOPMENT')}: whoever reaches ${settings.config.host} may read every encrypted run. Never use this for real data.\n`,
        );
      print(terminal, codecAnswer(server, namespace, settings), options.json === true);
      await ended(terminal.interrupted());
    } finally {
      await server.stop();
    }
    return undefined;
  },
});

function codecAnswer({ url, metricsUrl }: CodecServer, namespace: string, { config }: CodecSettings): Answer {
  const { oidc, development, origins } = config;
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
