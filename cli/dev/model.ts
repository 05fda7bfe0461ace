/** Chooses the demo agent's model: a script, unless the environment offers a provider. */
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { Terminal } from '../session/terminal.ts';
import { usage } from '../session/options.ts';

type ModelInput = NonNullable<ConfigInput['models']>[string];

export interface DemoModel {
  readonly config: ModelInput;
  /** Label for people, such as `anthropic claude-…`. */
  readonly label: string;
}

/** Keys stay in the environment: the configuration only names the variables (INV-S1). */
export function demoModel(env: Terminal['env']): DemoModel {
  const wanted = env['COUNTERSIGN_DEMO_MODEL'] || undefined;
  const namesOpenAi = isOpenAi(env['OPENAI_BASE_URL']);
  if (isSet(env, 'OPENAI_BASE_URL') && !namesOpenAi) return compatibleModel(env, wanted);
  if (namesOpenAi && !isSet(env, 'OPENAI_API_KEY')) {
    throw usage('OPENAI_BASE_URL is that of OpenAI: set OPENAI_API_KEY too, or unset OPENAI_BASE_URL.');
  }
  if (!namesOpenAi && isSet(env, 'ANTHROPIC_API_KEY')) {
    const model = wanted ?? 'claude-sonnet-4-5';
    return {
      config: { provider: 'anthropic', model, apiKey: '${ANTHROPIC_API_KEY}' },
      label: `${model} (Anthropic, from ANTHROPIC_API_KEY)`,
    };
  }
  if (isSet(env, 'OPENAI_API_KEY')) {
    const model = wanted ?? 'gpt-5-mini';
    return {
      config: { provider: 'openai', model, apiKey: '${OPENAI_API_KEY}' },
      label: `${model} (OpenAI, from OPENAI_API_KEY)`,
    };
  }
  return { config: { provider: 'scripted', script: SCRIPT }, label: 'scripted (no provider is asked)' };
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

/** True for OpenAI's own address. Its models have a default, and speak another API than compatible servers. */
function isOpenAi(baseUrl = ''): boolean {
  return URL.canParse(baseUrl) && new URL(baseUrl).hostname === 'api.openai.com';
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

export const SAMPLE_FILES: Readonly<Record<string, string>> = {
  'monday.txt':
    'Monday. The harbour office opens at 7:00 from now on, not at 8:00.\nThe night shift has not been told yet.\n',
  'tuesday.txt':
    'Tuesday. Crane 2 is out of service: a bearing is worn.\nThe new one is ordered and comes next week.\n',
};
