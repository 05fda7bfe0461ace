/** Gives each test of a file a PATH and a cache of its own, in which nothing of this machine is found. */
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach } from '@jest/globals';

export interface OwnPath {
  /** Returns the path of a file or folder of the test; `bin` is on PATH, and `cache` has what was built or loaded. */
  inRoot(path: string): string;
  /** Writes a program for the shell. @returns its path */
  program(path: string, script: string): Promise<string>;
}

/** @param others variables that are not set, and that tests may set */
export function useOwnPath(...others: readonly string[]): OwnPath {
  const names = ['PATH', 'XDG_CACHE_HOME', ...others];
  const before = Object.fromEntries(names.map((name) => [name, process.env[name]]));
  let root: string;
  const inRoot = (path: string): string => join(root, path);
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'countersign-path-'));
    for (const name of others) delete process.env[name];
    process.env['PATH'] = inRoot('bin');
    process.env['XDG_CACHE_HOME'] = inRoot('cache');
  });
  afterEach(async () => {
    for (const name of names) delete process.env[name];
    for (const [name, value] of Object.entries(before)) if (value !== undefined) process.env[name] = value;
    await rm(root, { recursive: true, force: true });
  });
  return {
    inRoot,
    program: async (path, script) => {
      await mkdir(dirname(inRoot(path)), { recursive: true });
      await writeFile(inRoot(path), `#!/bin/sh\n${script}\n`);
      await chmod(inRoot(path), 0o755);
      return inRoot(path);
    },
  };
}
