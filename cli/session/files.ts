/**
 * Reads what a command gets as a file or on standard input, and writes key files.
 *
 * 1. JSON and YAML are parsed here; the content is checked by the code that uses it.
 * 2. A private key is written once, and never over another file.
 * 3. The file of trusted keys (`trust.jwks`) is replaced whole, in one step, where links lead, and stays readable for
 *    whom it was: a worker that cannot read it believes the keys of before.
 */
import { generateKeyPairSync } from 'node:crypto';
import { access, chmod, chown, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { jsonOf } from '../../client/ledger/files.ts';
import { CountersignError, type ErrorCode, nodeCodeOf } from '../../contracts/errors.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { type Assertion, type TrustedJwk, TrustedJwks } from '../../contracts/schemas/trust.ts';
import { changedNumber } from '../../domain/text/written-json.ts';
import { parseYaml } from '../../workers/config/load.ts';
import type { Terminal } from './terminal.ts';
import { usage } from './options.ts';

/** The name of an input in messages, such as `run spec`, and the code of input that is neither JSON nor YAML. */
interface InputKind {
  readonly what: string;
  readonly code: ErrorCode;
}

/** @param source a path, or `-` for standard input */
export async function readInput(
  source: string,
  kind: InputKind,
  terminal: Pick<Terminal, 'directory' | 'input'>,
): Promise<unknown> {
  if (source === '-') return await parse(await terminal.input(), 'standard input', kind);
  const hint = 'Name a file that you may read, or - for standard input.';
  return await parse(await textOf(source, `${kind.what} ${source}`, terminal, hint), source, kind);
}

/** YAML 1.2 includes JSON. */
async function parse(text: string, shown: string, { code, what }: InputKind): Promise<unknown> {
  const refuse = (reason: string): CountersignError =>
    new CountersignError(code, `The ${what} ${shown} ${reason}. Correct it and try again.`);
  const value = await parseYaml(text, refuse, isAsWritten);
  if (value === null || value === undefined) throw refuse('is empty');
  return value;
}

/** YAML also has numbers in hexadecimal and octal digits (YAML 1.2.2 §10.3.2): up to 2^53 they are exact. */
function isAsWritten(source: string, value: number): boolean {
  if (!Number.isFinite(value)) return false;
  if (/^[-+]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][-+]?\d+)?$/.test(source)) return changedNumber(source) === undefined;
  return !Number.isInteger(value) || Number.isSafeInteger(value);
}

/** Writes a new file that only its owner may read. @throws CountersignError `USAGE` if it exists already */
export async function writeOnce(path: string, shown: string, text: string): Promise<void> {
  try {
    await writeFile(path, text, { flag: 'wx', mode: 0o600, flush: true });
  } catch (error) {
    const code = nodeCodeOf(error) ?? 'error';
    const reason =
      code === 'EEXIST'
        ? 'is there already, and a private key is never overwritten; name another'
        : `cannot be written (${code})`;
    throw usage(`The file ${shown} ${reason}.`, {}, { cause: error });
  }
}

export async function textOf(
  file: string,
  what: string,
  { directory }: Pick<Terminal, 'directory'>,
  hint = 'Name a file that you may read.',
): Promise<string> {
  return await readFile(resolve(directory, file), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw usage(`The ${what} cannot be read (${error.code ?? 'error'}). ${hint}`, {}, { cause: error });
  });
}

/** @param source a path, or `-` for standard input */
export async function readSpec(source: string, terminal: Pick<Terminal, 'directory' | 'input'>): Promise<RunSpecInput> {
  // Sound: `startRun` parses the value before anything else happens, and its error has code and path.
  return (await readInput(source, { what: 'run spec', code: 'SPEC_INVALID' }, terminal)) as RunSpecInput;
}

export const TRUST_FILE = 'trust.jwks';

/** @param shown the path as the user gave it @throws CountersignError `USAGE`, `CONFIG_INVALID` */
export async function readTrustFile(place: Pick<Terminal, 'directory'>, shown: string): Promise<readonly TrustedJwk[]> {
  const value = jsonOf(await textOf(shown, `trusted keys ${shown}`, place, 'Name the file with --trust.'));
  if (value !== undefined) return parseAs(TrustedJwks, value, 'CONFIG_INVALID', `file of trusted keys ${shown}`).keys;
  const message = `The trusted keys ${shown} are no JSON. Correct the file and try again.`;
  throw new CountersignError('CONFIG_INVALID', message);
}

/**
 * Changes the trusted keys, one command at a time, so that what another one writes, such as a revocation, stays.
 * @param change gets the keys as they are; where it throws, nothing is changed
 * @throws CountersignError `USAGE`, `CONFIG_INVALID`
 */
export async function changeTrustFile<T>(
  terminal: Pick<Terminal, 'directory'>,
  shown: string,
  whereMissing: 'new' | 'error',
  change: (trusted: readonly TrustedJwk[]) => Promise<{ readonly keys: readonly TrustedJwk[]; readonly told: T }>,
): Promise<T> {
  const named = resolve(terminal.directory, shown);
  const path = await realpath(named).catch(() => named);
  // The next content is also the lock: it is gone as soon as it is the file itself.
  const next = `${path}.next`;
  await writeFile(next, '', { flag: 'wx' }).catch((error: unknown) => {
    if (nodeCodeOf(error) !== 'EEXIST') return unwritable(shown)(error);
    throw usage(
      `Another command changes ${shown}, and nothing was changed. Try again; if there is none any more, remove ${next}.`,
    );
  });
  try {
    // Only a file that is not there is new: one that cannot be looked at may hold keys.
    const isNew = whereMissing === 'new' && (await isMissing(path));
    const { keys, told } = await change(isNew ? [] : await readTrustFile(terminal, shown));
    await writeFile(next, `${JSON.stringify({ keys }, null, 2)}\n`, { flush: true }).catch(unwritable(shown));
    const before = await stat(path).catch(() => undefined);
    if (before !== undefined) {
      // Only the superuser can give a file away; anybody else keeps it.
      await chown(next, before.uid, before.gid).catch(() => undefined);
      // Whatever is masked for new files.
      await chmod(next, before.mode & 0o777);
    }
    await rename(next, path).catch(unwritable(shown));
    return told;
  } catch (error) {
    await rm(next, { force: true });
    throw error;
  }
}

function unwritable(shown: string): (error: unknown) => never {
  return (error) => {
    const reason = `cannot be written (${nodeCodeOf(error) ?? 'error'}), and are as they were`;
    throw usage(`The trusted keys ${shown} ${reason}. Correct that and try again.`, {}, { cause: error });
  };
}

/** @throws CountersignError `USAGE` */
export function keyIn(keys: readonly TrustedJwk[], kid: string, shown: string): TrustedJwk {
  const found = keys.find((key) => key.kid === kid);
  if (found !== undefined) return found;
  throw usage(`There is no key ${kid} in ${shown}. See: countersign keys list --trust ${shown}`);
}

/** Makes a key pair: writes the private half to a file of its own, and returns the public half. */
export async function makeKey(
  { directory }: Pick<Terminal, 'directory'>,
  { kid, file, countersign }: { readonly kid: string; readonly file: string; readonly countersign: Assertion },
): Promise<TrustedJwk> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const { x = '', d } = privateKey.export({ format: 'jwk' });
  const jwk = { kty: 'OKP', crv: 'Ed25519', x, kid, alg: 'EdDSA', use: 'sig', countersign } as const;
  await writeOnce(resolve(directory, file), file, `${JSON.stringify({ ...jwk, d }, null, 2)}\n`);
  return jwk;
}

async function isMissing(path: string): Promise<boolean> {
  return await access(path).then(
    () => false,
    (error: unknown) => nodeCodeOf(error) === 'ENOENT',
  );
}
