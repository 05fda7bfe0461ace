/**
 * Implements `countersign start`. It seals the caller's own tokens for a run (`--authorization server=VARIABLE`) before
 * they leave this process.
 *
 * 1. A token comes from an environment variable. Every user of the machine can read a command line (INV-S1).
 * 2. This side's files and options say where a token goes and to which key it is sealed; the run does not.
 */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { JWK } from 'jose';
import type { MissingTool, RunHandle, RunSpecInput } from '../../client/index.ts';
import { listAt, textAt } from '../../client/ledger/files.ts';
import type { SealingTargets } from '../../client/run/start-run.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { visible } from '../../domain/text/escape.ts';
import { lastWord } from '../../domain/text/shell-word.ts';
import { readSpec } from '../session/files.ts';
import * as option from '../session/options.ts';
import { type Session, withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { type Answer, safeJson, verb } from '../session/verb.ts';
import { resultText } from '../views/run.ts';
import { pauseTeller, waitForResult } from './run.ts';

export const TOKENS = {
  authorization: option.pairs(
    '<server=VARIABLE>',
    'your own access token for a server, read from this environment variable and sealed here',
  ),
  sealingKey: option.pairs('<server=file>', 'public JWK of the zone that holds the server (see: countersign keys)'),
};

/**
 * Connects with the caller's tokens at hand, and the keys to which they are sealed.
 * @param spec says where servers are that the configuration does not name
 */
export async function withTokens<T>(
  terminal: Terminal,
  options: option.Values<typeof TOKENS> & option.GlobalOptions,
  spec: unknown,
  use: (session: Session, authorizations: Record<string, string>) => Promise<T>,
): Promise<T> {
  const authorizations = readAuthorizations(options.authorization ?? {}, terminal.env);
  const keys = await readSealingKeys(options.sealingKey ?? {}, terminal.directory);
  return await withSession(
    terminal,
    options,
    async (session) => await use(session, authorizations),
    ({ serverUrls }) => sealingTargets(keys, serverUrls, spec),
  );
}

export const START = verb({
  name: 'start',
  summary: 'start a run from a spec file',
  description: 'Start a run; the same id with the same spec is the same run',
  args: { spec: option.one('run spec, JSON or YAML; - for standard input') },
  options: {
    id: option.text(
      '<run>',
      'run id; choose one that names the work, so that starting twice is harmless (default: a random one)',
    ),
    ...TOKENS,
    wait: option.flag('wait for the result; with --deadline, no longer than that'),
  },
  examples: [
    'start run.yaml --id summary-1',
    'start spec.json --id nightly-42 --wait --deadline 3600',
    'start - --id nightly-42 --authorization tickets=TICKETS_TOKEN --sealing-key tickets=zone.jwk < spec.yaml',
  ],
  run: async ({ args, options, terminal }) => {
    const { id: runId = `run-${randomUUID()}`, wait = false, deadline } = options;
    const spec = await readSpec(args.spec, terminal);
    return await withTokens(terminal, options, spec, async ({ countersign, settings }, authorizations) => {
      const run = await countersign.startRun({ runId, spec, authorizations, taskQueue: settings.taskQueue });
      return await startedAnswer(run, { spec, wait, deadline }, { terminal, options });
    });
  },
});

/** Says what became of a start, or waits for the result; trouble is told before, while the user still looks. */
export async function startedAnswer(
  run: RunHandle & { readonly started: boolean },
  { spec, wait, deadline }: { spec: RunSpecInput; wait: boolean; deadline: number | undefined },
  { terminal, options }: { readonly terminal: Terminal; readonly options: option.GlobalOptions },
): Promise<Answer> {
  const { runId, started } = run;
  const trouble = started ? await troubleAtStart(run, spec, deadline) : undefined;
  const warning = trouble && { code: trouble.code, message: trouble.message };
  if (!wait) return startAnswer(runId, started, warning);
  const tellPause = pauseTeller(terminal, options);
  const isLasting = warning?.code === 'TOOL_UNKNOWN';
  if (isLasting)
    terminal.err(
      options.json === true
        ? `${safeJson({ warning })}\n`
        : `${terminal.paint('yellow', 'warning')}: ${visible(warning.message)}\n`,
    );
  // A queue without workers is told by whoever waits for the result.
  else if (trouble !== undefined && trouble.facts['taskQueue'] === undefined) tellPause(trouble);
  const result = await waitForResult(run, deadline, tellPause);
  return {
    json: { runId, started, ...(isLasting && { warning }), result },
    text: (paint) => resultText(runId, result, paint),
  };
}

/** A running worker checks a spec in much less time. */
const FIRST_WORD_SECONDS = 5;

/**
 * Returns why no worker has taken the run yet, or which names in `allowedTools` no server has: the run goes on.
 * @throws CountersignError if the spec is refused
 */
async function troubleAtStart(
  run: RunHandle,
  { servers = [] }: RunSpecInput,
  deadline = FIRST_WORD_SECONDS,
): Promise<CountersignError | undefined> {
  try {
    const missing = await run.begun({ deadlineMs: Math.min(FIRST_WORD_SECONDS, deadline) * 1_000 });
    return missing.length === 0 ? undefined : notThere(missing, servers);
  } catch (error) {
    if (error instanceof CountersignError && error.code === 'ENGINE_UNAVAILABLE') return error;
    throw error;
  }
}

function notThere(missing: readonly MissingTool[], servers: readonly { readonly name: string }[]): CountersignError {
  const texts = missing.map(({ server, name, near }) => {
    const path = `servers[${servers.findIndex((each) => each.name === server)}].allowedTools`;
    const hint = near.length === 0 ? '' : ` Did you mean ${near.join(', ')}?`;
    return `${path}: server ${server} has no tool "${name}".${hint}`;
  });
  return new CountersignError('TOOL_UNKNOWN', `${texts.join(' ')} The run goes on without.`);
}

function startAnswer(
  runId: string,
  started: boolean,
  warning: Pick<CountersignError, 'code' | 'message'> | undefined,
): Answer {
  return {
    json: { runId, started, ...defined({ warning }) },
    text: (paint) => {
      const what = started ? paint('green', 'started') : 'was started before with this spec; nothing was changed';
      const waits = warning === undefined ? '' : `\n${paint('yellow', `  ${visible(warning.message)}`)}`;
      const next = ['watch', 'requests', 'result'].map((name) => `  countersign ${name} ${lastWord(runId)}`).join('\n');
      return `${paint('bold', visible(runId))}  ${what}${waits}\n${paint('dim', next)}`;
    },
  };
}

export function readAuthorizations(variables: option.Pairs, env: Terminal['env']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).map(([server, variable]) => {
      const token = env[variable];
      if (token !== undefined && token !== '') return [server, token];
      // The text may be the token itself, given by mistake, so it is not repeated.
      const shown = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(variable) ? `variable ${variable}` : 'variable that it names';
      const message = `--authorization ${server}=…: the environment ${shown} is not set. Put the token into a variable and name the variable.`;
      throw option.usage(message, { path: `authorizations.${server}` });
    }),
  );
}

export async function readSealingKeys(files: option.Pairs, directory: string): Promise<Record<string, JWK>> {
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
    const message = `The sealing key ${shown} cannot be read as a public JWK; make a pair with: countersign keys`;
    throw new CountersignError('SEALING_KEY_MISSING', message, {}, { cause: error });
  }
}

/** @param urls URLs of configured servers @param spec is not checked yet; `startRun` checks it next */
export function sealingTargets(keys: Readonly<Record<string, JWK>>, urls: option.Pairs, spec: unknown): SealingTargets {
  const own = new Map(listAt(spec, 'servers').map((each) => [textAt(each, 'name'), textAt(each, 'url')]));
  return Object.fromEntries(
    Object.entries(keys).map(([server, key]) => {
      const url = urls[server] ?? own.get(server);
      if (url !== undefined) return [server, { url, key }];
      const message = `--sealing-key ${server}=…: neither the configuration (servers.${server}.url) nor the run spec says where that server is.`;
      throw option.usage(message, { path: `servers.${server}.url` });
    }),
  );
}
