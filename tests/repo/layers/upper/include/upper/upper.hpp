#pragma once
int upper();
