"""Shared prerequisites outside the job file: how they are referred to, found, read and rendered.

A *definition* is a prerequisite that others may require, with template variables that they give it. It stands
in a *definition file*, which comes from a source: a folder, a URL, or a marketplace server. Nothing in here
knows of jobs; `pai_runtime.job.expansion` puts definitions into one.
"""
