"""The bundle: the runtime made to run in any image.

An interpreter with the libraries and the dynamic loader that it needs, the runtime, and the plugins that the
policies allow, in one directory that runs from where every pod has it (`pai_task.paths.BUNDLE`).
"""
