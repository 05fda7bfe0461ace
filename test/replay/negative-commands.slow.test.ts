// Negative controls of what a run commands (INV-D1).
import { testControls } from './controls.ts';
import { OTHER_COMMANDS } from './mutations.ts';

testControls({ commands: OTHER_COMMANDS });
