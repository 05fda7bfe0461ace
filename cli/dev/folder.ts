/**
 * Makes the folder of `countersign dev`: database, artifacts, files for the demo MCP server, and a configuration, whose
 * model is a script, unless the environment offers a provider.
 */
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { usage } from '../session/options.ts';
import type { Terminal } from '../session/terminal.ts';

type DevFolder = Awaited<ReturnType<typeof prepareFolder>>;

/** @param directory absolute */
export async function prepareFolder(directory: string) {
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
      // A trusted server's annotations exempt a call from asking, and only by `readOnlyHint: true`.
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

type ModelInput = NonNullable<ConfigInput['models']>[string];

interface DemoModel {
  readonly config: ModelInput;
  readonly label: string;
}

/** Keys stay in the environment: the configuration only names the variables (INV-S1). */
export function demoModel(env: Terminal['env']): DemoModel {
  const wanted = env['COUNTERSIGN_DEMO_MODEL'] || undefined;
  if (isSet(env, 'OPENAI_BASE_URL')) return compatibleModel(env, wanted);
  if (isSet(env, 'ANTHROPIC_API_KEY'))
    return hostedModel('anthropic', 'Anthropic', 'ANTHROPIC_API_KEY', wanted ?? 'claude-sonnet-4-5');
  if (isSet(env, 'OPENAI_API_KEY')) return hostedModel('openai', 'OpenAI', 'OPENAI_API_KEY', wanted ?? 'gpt-5-mini');
  return { config: { provider: 'scripted', script: SCRIPT }, label: 'scripted (no provider is asked)' };
}

function hostedModel(provider: 'anthropic' | 'openai', name: string, variable: string, model: string): DemoModel {
  const config = { provider, model, apiKey: `\${${variable}}` };
  return { config, label: `${model} (${name}, from ${variable})` };
}

function compatibleModel(env: Terminal['env'], wanted: string | undefined): DemoModel {
  if (wanted === undefined) {
    throw usage(
      'OPENAI_BASE_URL is set: name the model of that server in COUNTERSIGN_DEMO_MODEL, or unset OPENAI_BASE_URL.',
    );
  }
  const key = isSet(env, 'OPENAI_API_KEY') ? { apiKey: '${OPENAI_API_KEY}' } : {};
  return {
    config: { provider: 'openai-compatible', model: wanted, baseUrl: '${OPENAI_BASE_URL}', ...key },
    label: `${wanted} (OpenAI-compatible, from OPENAI_BASE_URL)`,
  };
}

function isSet(env: Terminal['env'], name: string): boolean {
  return (env[name] ?? '') !== '';
}

const SUMMARY = `# Summary

- The harbour office opens at 7:00 from Monday on (monday.txt).
- Crane 2 stays out of service until the new bearing arrives (tuesday.txt).
- Open: who tells the night shift?
`;

/** The script fits `SAMPLE_FILES` and examples/write-a-summary.yaml. */
const SCRIPT = {
  steps: [
    { text: 'I will see what there is.', calls: [{ tool: 'files/list_directory', arguments: { path: '.' } }] },
    {
      text: 'Two notes; I will read both.',
      calls: [
        { tool: 'files/read_text_file', arguments: { path: 'monday.txt' } },
        { tool: 'files/read_text_file', arguments: { path: 'tuesday.txt' } },
      ],
    },
    {
      text: 'I have what I need for the summary.',
      calls: [{ tool: 'files/write_file', arguments: { path: 'summary.md', content: SUMMARY } }],
    },
    {
      text: 'The summary could not be written.',
      branches: [
        { when: { outcome: 'succeeded' as const }, then: { text: 'Both notes are summed up in summary.md.' } },
        {
          when: { outcome: 'rejected' as const },
          then: { text: 'You did not want summary.md written, so I left it.' },
        },
        {
          when: { outcome: 'expired' as const },
          then: { text: 'Nobody decided in time, so summary.md was not written.' },
        },
      ],
    },
  ],
};

const SAMPLE_FILES: Readonly<Record<string, string>> = {
  'monday.txt':
    'Monday. The harbour office opens at 7:00 from now on, not at 8:00.\nThe night shift has not been told yet.\n',
  'tuesday.txt':
    'Tuesday. Crane 2 is out of service: a bearing is worn.\nThe new one is ordered and comes next week.\n',
};
