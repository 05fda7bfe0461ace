/**
 * Reads `--authorization server=VARIABLE`: the caller's own tokens for a run, which are sealed before they
 * leave this process.
 *
 * 1. A token comes from an environment variable. Every user of the machine can read a command line (INV-S1).
 * 2. This side's files and options say where a token goes and to which key it is sealed; the run does not.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { JWK } from 'jose';
import type { SealingTargets } from '../../client/run/start-run.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Terminal } from './terminal.ts';

type ByServer = Readonly<Record<string, string>>;

export function readAuthorizations(variables: ByServer, env: Terminal['env']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).map(([server, variable]) => {
      const token = env[variable];
      if (token !== undefined && token !== '') return [server, token];
      // The text may be the token itself, given by mistake, so it is not repeated.
      const shown = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(variable) ? `variable ${variable}` : 'variable that it names';
      throw new CountersignError(
        'USAGE',
        `--authorization ${server}=…: the environment ${shown} is not set. Put the token into a variable and name the variable.`,
        { path: `authorizations.${server}` },
      );
    }),
  );
}

export async function readSealingKeys(files: ByServer, directory: string): Promise<Record<string, JWK>> {
  const keys = Object.entries(files).map(
    async ([server, file]) => [server, await readKey(resolve(directory, file), file)] as const,
  );
  return Object.fromEntries(await Promise.all(keys));
}

async function readKey(path: string, shown: string): Promise<JWK> {
  try {
    // Sound: sealing checks every field that it uses.
    return JSON.parse(await readFile(path, 'utf8')) as JWK;
  } catch (error) {
    throw new CountersignError(
      'SEALING_KEY_MISSING',
      `The sealing key ${shown} cannot be read as a public JWK; make a pair with: countersign keys`,
      {},
      { cause: error },
    );
  }
}

/**
 * @param urls URLs of configured servers
 * @param spec is not checked yet; `startRun` checks it next
 */
export function sealingTargets(keys: Readonly<Record<string, JWK>>, urls: ByServer, spec: unknown): SealingTargets {
  const own = ownUrls(spec);
  return Object.fromEntries(
    Object.entries(keys).map(([server, key]) => {
      const url = urls[server] ?? own.get(server);
      if (url !== undefined) return [server, { url, key }];
      const message = `--sealing-key ${server}=…: neither the configuration (servers.${server}.url) nor the run spec says where that server is.`;
      throw new CountersignError('USAGE', message, { path: `servers.${server}.url` });
    }),
  );
}

function ownUrls(spec: unknown): Map<string, string> {
  const servers: unknown = typeof spec === 'object' && spec !== null && 'servers' in spec ? spec.servers : [];
  const urls = (Array.isArray(servers) ? servers : []).flatMap((server: unknown) => {
    if (typeof server !== 'object' || server === null || !('name' in server) || !('url' in server)) return [];
    return typeof server.name === 'string' && typeof server.url === 'string'
      ? [[server.name, server.url] as const]
      : [];
  });
  return new Map(urls);
}
