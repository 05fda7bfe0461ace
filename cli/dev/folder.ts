/** Makes the folder of `countersign dev`: database, artifacts, files for the demo MCP server, and a configuration. */
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { type DemoModel, SAMPLE_FILES } from './model.ts';

export interface DevFolder {
  readonly artifacts: string;
  readonly database: string;
  readonly files: string;
  readonly config: string;
}

/** @param directory absolute */
export async function prepareFolder(directory: string): Promise<DevFolder> {
  const files = join(directory, 'files');
  const isNew = !existsSync(files);
  await mkdir(files, { recursive: true });
  if (isNew) for (const [name, text] of Object.entries(SAMPLE_FILES)) await writeFile(join(files, name), text);
  return {
    artifacts: join(directory, 'artifacts'),
    database: join(directory, 'temporal.db'),
    files,
    config: join(directory, 'countersign.yaml'),
  };
}

const HEAD = `# Written by \`countersign dev\` at each start. To change it, copy it to ./countersign.yaml, which is then used instead.
# Secrets stand in the environment: \${NAME} takes the variable's value.

`;

export async function writeConfig(folder: DevFolder, model: DemoModel, filesUrl: string): Promise<void> {
  await writeFile(folder.config, `${HEAD}${stringify(configOf(folder, model, filesUrl), { lineWidth: 0 })}`);
}

function configOf({ artifacts }: DevFolder, { config }: DemoModel, filesUrl: string): ConfigInput {
  return {
    servers: {
      // Trusting the server lets its annotations exempt a call from asking. Only a boolean `readOnlyHint: true` does
      // so.
      files: { url: filesUrl, trusted: true, credentials: { kind: 'none' } },
    },
    models: { demo: config },
    // The demo server and a local model run on this machine; production needs no loopback.
    egress: { allowLoopback: true },
    policy: { strategy: 'annotations', approvers: { ids: ['ann'], groups: ['reviewers'] } },
    // A tool that nobody has spoken of asks by the policy above, as without a catalog.
    catalog: { administrators: [{ ids: ['ann'], may: ['connect', 'loosen', 'tighten'] }], newTools: 'strategy' },
    // Absolute, so that a copy of the file elsewhere names the store in which the runs of this folder have theirs.
    artifacts: { directory: artifacts },
    worker: { shutdownGraceSeconds: 2 },
    log: { level: 'warn' },
  };
}
